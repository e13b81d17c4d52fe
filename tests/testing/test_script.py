"""The script: which turn answers, when trouble ends, which of the offered tools is called."""

import pytest

from corral.testing import Call, Script, ScriptError, Turn
from corral.testing.model.tools import NoSuchToolError, OfferedTool, tool_uses


def offers(**tools):
    return {
        name: OfferedTool(schema={"properties": {each: {"type": "string"} for each in names}})
        for name, names in tools.items()
    }


def only_use(call, offered):
    (use,) = tool_uses([call], offered)
    return use.name, dict(use.arguments)


def test_the_history_chooses_the_turn_however_often_it_is_asked():
    script = Script(turns=(Turn(text="first"), Turn(text="second")))
    assert script.position(1, 0, has_tools=True) == script.position(1, 7, has_tools=True) == 1
    assert [script.turn(position, 1).says for position in (0, 1, 2, 9)] == ["first", "second", "done", "done"]


def test_in_order_the_number_of_requests_chooses_the_turn():
    script = Script(turns=(Turn(text="first"),), in_order=True)
    assert script.position(5, 0, has_tools=True) == 0


def test_a_request_without_tools_is_a_side_request():
    script = Script(turns=(Turn(text="first"),), side_text="A title")
    position = script.position(0, 0, has_tools=False)
    assert position is None
    assert script.turn(position, 1).says == "A title"


def test_no_request_is_a_side_request_for_a_program_that_offers_no_tools():
    assert Script(toolless=True).position(0, 0, has_tools=False) == 0


def test_lasting_trouble_hits_side_requests_too_but_counted_trouble_does_not():
    assert Script(turns=(Turn(status=401),)).turn(None, 1).status == 401
    assert Script(turns=(Turn(hang_seconds=9),)).turn(None, 1).hang_seconds == 9
    assert Script(turns=(Turn(status=429, times=1),)).turn(None, 1).status is None


def test_trouble_ends_after_its_times_and_the_rest_is_answered():
    script = Script(
        turns=(Turn(status=500, drop=True, hang_seconds=3, times=2, text="at last"), Turn(status=500, times=1))
    )
    assert [script.turn(0, attempt).status for attempt in (1, 2, 3)] == [500, 500, None]
    assert script.turn(0, 3) == Turn(text="at last", times=2)
    assert script.turn(1, 2).says == "done"


def test_a_text_may_be_empty_on_purpose():
    assert Turn(text="").says == ""
    assert Turn().says == "done"
    assert Turn(sh="ls").says == ""


def test_own_calls_come_before_the_further_ones():
    turn = Turn(sh="one", calls=(Call(sh="two"), Call(sh="three")))
    assert [use.arguments["command"] for use in tool_uses(turn.all_calls, offers(Bash=["command"]))] == [
        "one",
        "two",
        "three",
    ]


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ({"Write": ["file_path", "content"]}, ("Write", {"file_path": "a b", "content": "it's\n"})),
        ({"write": ["filePath", "content"]}, ("write", {"filePath": "a b", "content": "it's\n"})),
        ({"create": ["path", "file_text"]}, ("create", {"path": "a b", "file_text": "it's\n"})),
        ({"exec_command": ["cmd"]}, ("exec_command", {"cmd": "printf %s 'it'\"'\"'s\n' > 'a b'"})),
        (
            {"apply_patch": ["input"], "exec_command": ["cmd"]},
            ("apply_patch", {"input": "*** Begin Patch\n*** Add File: a b\n+it's\n*** End Patch"}),
        ),
    ],
)
def test_write_takes_the_tool_that_is_offered(offered, expected):
    assert only_use(Call(write={"path": "a b", "content": "it's\n"}), offers(**offered)) == expected


def test_read_takes_the_tool_that_is_offered_or_the_shell():
    assert only_use(Call(read="a"), offers(read_file=["absolute_path"])) == ("read_file", {"absolute_path": "a"})
    assert only_use(Call(read="a"), offers(Bash=["command"])) == ("Bash", {"command": "cat a"})


def test_a_shell_that_wants_a_list_gets_one():
    offered = {"shell": OfferedTool(schema={"properties": {"command": {"type": "array"}}})}
    assert only_use(Call(sh="ls"), offered) == ("shell", {"command": ["bash", "-lc", "ls"]})


def test_a_tool_named_literally_needs_no_offer():
    assert only_use(Call(tool="mcp__noter__note", input={"text": "x"}), {}) == ("mcp__noter__note", {"text": "x"})


def test_a_wish_without_a_tool_says_what_was_offered():
    with pytest.raises(NoSuchToolError, match="the program offers Glob, Grep"):
        tool_uses([Call(sh="ls")], offers(Grep=["pattern"], Glob=["pattern"]))


@pytest.mark.parametrize(
    "fields",
    [{"write": {"path": "a"}}, {"input": {"a": 1}}, {"status": 200}, {"status": 500, "times": 0}],
)
def test_a_turn_that_cannot_be_played_is_refused(fields):
    with pytest.raises(ScriptError):
        Turn(**fields)
