"""Any program is an agent: how it is told its task, and how its answer is read."""

from pathlib import Path

import pytest

from tests.rig.command import Corral, Outcome
from tests.rig.repository import Repo

WORK = "echo x > x\n"


def played(corral: Corral, script: str, settings: str = "", *arguments: str) -> Outcome:
    corral.agent("mine", script, settings)
    return corral.run(corral.repo(), "the task", "--agent", "mine", "--retries", "0", *arguments)


def told(outcome: Outcome, name: str = "told") -> str:
    return Repo(Path(outcome.json["repo"])).read(outcome.attempt["commit"], name)


def test_the_prompt_is_an_argument(corral: Corral) -> None:
    assert told(played(corral, 'printf "%s|" "$@" > told')) == "the task|"


def test_the_prompt_stands_where_the_template_says(corral: Corral) -> None:
    corral.config('[agents.mine]\ncommand = ["sh", "-c", "printf %s \\"$1\\" > told", "--", "do: {prompt}"]')
    assert told(corral.run(corral.repo(), "the {model} task", "--agent", "mine")) == "do: the {model} task"


def test_the_prompt_comes_on_stdin(corral: Corral) -> None:
    assert told(played(corral, 'echo "$# $(cat)" > told', 'prompt = "stdin"')) == "0 the task"


def test_the_prompt_is_a_file_outside_the_workspace(corral: Corral) -> None:
    outcome = played(corral, 'cat "$1" > told; echo " $1" >> told', 'prompt = "file"')
    text = told(outcome)
    assert text.startswith("the task /")
    assert outcome.attempt["files_changed"] == ["told"]


def test_the_model_is_passed_on(corral: Corral) -> None:
    corral.config('[agents.mine]\ncommand = ["sh", "-c", "echo $0 > told", "{model}", "{prompt}"]\nmodel = "small"')
    repo = corral.repo()
    assert told(corral.run(repo, "t", "--agent", "mine")) == "small"
    chosen = corral.run(repo, "t", "--agent", "mine:large")
    assert told(chosen) == "large"
    assert chosen.attempt["model"] == "large"


def test_only_named_variables_reach_it(corral: Corral) -> None:
    settings = 'env = ["WANTED", "ABSENT"]\nsettings = { GIVEN = "by hand" }'
    corral.agent("mine", 'echo "$WANTED,$GIVEN,${SECRET-none},${ABSENT-none}" > told', settings)
    outcome = corral.run(corral.repo(), "t", "--agent", "mine", env={"WANTED": "yes", "SECRET": "key"})
    assert told(outcome) == "yes,by hand,none,none"


def test_text_is_its_stdout(corral: Corral) -> None:
    outcome = played(corral, WORK + "echo one; echo; echo two; echo aside >&2")
    assert outcome.attempt["output"] == "one\n\ntwo"


@pytest.mark.parametrize(("word", "status"), [("PASSED", "done"), ("sorry", "failed")])
def test_text_with_a_rule_of_success(corral: Corral, word: str, status: str) -> None:
    outcome = played(corral, WORK + f"echo {word}", 'success = "^PASSED$"')
    assert outcome.json["status"] == status
    assert (outcome.attempt["error"] or {}).get("class") == (None if status == "done" else "bad_output")


def test_json_fields_are_read(corral: Corral) -> None:
    answer = '{"result": {"text": "fine"}, "ok": true, "bill": {"usd": 0.5}, "use": {"input": 7, "output": 3}}'
    settings = 'output = "json"\nresult = "result.text"\nsuccess = "ok"\ncost = "bill.usd"\ntokens = "use"'
    outcome = played(corral, WORK + f"echo '{answer}'", settings)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "fine"
    assert outcome.attempt["cost"] == {"usd": 0.5, "source": "reported", "reserved_usd": 0.0}
    assert outcome.attempt["tokens"] == {"input": 7, "output": 3, "cache_read": 0, "cache_write": 0}
    assert outcome.json["cost"] == {"usd": 0.5, "source": "reported", "reserved_usd": 0.0}


def test_json_may_be_the_output_itself(corral: Corral) -> None:
    outcome = played(corral, WORK + """printf '{\\n "a": [1, 2]\\n}\\n'""", 'output = "json"')
    assert outcome.attempt["output"] == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ('{"ok": false, "result": "x"}', "ok"),
        ('{"ok": true}', "result"),
        ("not json at all", "JSON"),
        ("", "JSON"),
    ],
)
def test_json_that_does_not_hold_is_bad_output(corral: Corral, answer: str, why: str) -> None:
    outcome = played(corral, WORK + f"echo '{answer}'", 'output = "json"\nresult = "result"\nsuccess = "ok"')
    assert outcome.code == 1
    assert outcome.attempt["error"]["class"] == "bad_output"
    assert why in outcome.attempt["error"]["message"]


def test_an_exit_code_counts_whatever_the_json_says(corral: Corral) -> None:
    outcome = played(corral, WORK + """echo '{"ok": true}'; exit 3""", 'output = "json"\nsuccess = "ok"')
    assert outcome.attempt["error"]["class"] == "crash"


def test_json_lines_the_last_that_has_a_field_counts(corral: Corral) -> None:
    lines = [
        '{"type": "word", "text": "thinking"}',
        '{"usd": 0.1, "status": "busy"}',
        "not json",
        '{"final": "the answer", "status": "success", "use": {"input_tokens": 5, "output_tokens": 6}}',
        '{"usd": 0.3}',
    ]
    script = WORK + "\n".join(f"echo '{line}'" for line in lines)
    settings = 'output = "jsonl"\nresult = "final"\nsuccess = "status=success"\ncost = "usd"\ntokens = "use"'
    outcome = played(corral, script, settings)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "the answer"
    assert outcome.attempt["cost"] == {"usd": 0.3, "source": "reported", "reserved_usd": 0.0}
    assert (outcome.attempt["tokens"]["input"], outcome.attempt["tokens"]["output"]) == (5, 6)
    events = corral.events()
    assert any(event["type"] == "said" and event["text"] == "thinking" for event in events)
    assert any(event["type"] == "unparsed" and event["line"] == "not json" for event in events)


def test_json_lines_without_success_are_bad_output(corral: Corral) -> None:
    outcome = played(corral, WORK + """echo '{"status": "gave up"}'""", 'output = "jsonl"\nsuccess = "status=ok"')
    assert outcome.attempt["error"]["class"] == "bad_output"


def test_patterns_are_read_out_of_text(corral: Corral) -> None:
    script = WORK + "echo 'Answer: forty two'; echo 'Cost: $0.75'; echo 'Tokens: 1200'; echo OK"
    settings = (
        "output = \"regex\"\nresult = 'Answer: (.*)'\nsuccess = '^OK$'\ncost = 'Cost: \\$([0-9.]+)'\n"
        "tokens = 'Tokens: (\\d+)'"
    )
    outcome = played(corral, script, settings)
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "forty two"
    assert outcome.attempt["cost"] == {"usd": 0.75, "source": "reported", "reserved_usd": 0.0}
    assert outcome.attempt["tokens"]["output"] == 1200


def test_a_pattern_that_fits_nothing_is_bad_output(corral: Corral) -> None:
    outcome = played(corral, WORK + "echo nothing", "output = \"regex\"\nresult = 'Answer: (.*)'")
    assert outcome.attempt["error"]["class"] == "bad_output"


def test_a_fixed_price_is_charged_in_full(corral: Corral) -> None:
    outcome = played(corral, WORK, "cost_usd = 0.4")
    assert outcome.attempt["cost"] == outcome.json["cost"] == {"usd": 0.4, "source": "fixed", "reserved_usd": 0.0}
    failed = corral.run(Path(outcome.json["repo"]), "t", "--agent", "mine", "--check", "false", "--retries", "1")
    assert failed.json["cost"] == {"usd": 0.8, "source": "fixed", "reserved_usd": 0.0}


def test_a_program_that_reaches_no_host_and_names_no_cost_costs_nothing(corral: Corral) -> None:
    assert played(corral, WORK).json["cost"] == {"usd": 0.0, "source": "fixed", "reserved_usd": 0.0}


def test_any_program_with_its_interpreter(corral: Corral) -> None:
    path = corral.config_file.parent / "agent.py"
    corral.config('[agents.mine]\ncommand = ["python3", "agent.py", "{prompt}"]')
    path.write_text("import pathlib, sys\npathlib.Path('told').write_text(sys.argv[1])\nprint('from python')\n")
    outcome = corral.run(corral.repo(), "the task", "--agent", "mine")
    assert told(outcome) == "the task"
    assert outcome.attempt["output"] == "from python"


@pytest.mark.parametrize(("kind", "tries"), [("rate_limit", 2), ("overloaded", 2), ("auth", 1), ("denied", 1)])
def test_what_settings_call_a_failure_decides_whether_it_is_tried_again(corral: Corral, kind: str, tries: int) -> None:
    place = corral.root / "seen"
    place.mkdir()
    (place / "tries").touch()
    for path in (place, place / "tries"):
        path.chmod(0o777)  # in its box, an agent is another user
    corral.config(f'[scope]\nwrite = ["**", "{place}/**"]\n[retry]\ndelay_seconds = 0.1\n')
    fails = f"test $(wc -l < {place}/tries) -ge 2 || {{ echo 'HTTP 429: slow down' >&2; exit 9; }}"
    corral.agent("mine", f"echo x >> {place}/tries; {fails}; echo done > x", f'errors = {{ {kind} = "429|no more" }}')
    outcome = corral.run(corral.repo(), "t", "--agent", "mine")
    attempts = outcome.json["nodes"][0]["attempts"]
    assert attempts[0]["error"]["class"] == kind, outcome
    assert len(attempts) == tries
    assert outcome.json["status"] == ("done" if tries == 2 else "failed")
