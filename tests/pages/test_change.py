"""Changes, comparing, merging, undoing and conflicts, as a person does them in a browser."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.rig.browser import Eyes, examine, examine_all, looking
from tests.rig.repository import Repo
from tests.rig.server import Server, waits_for
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

TEXT = "".join(f"line {number}\n" for number in range(1, 61))
GOOD = '[[step]]\nwrite = "greeting.py"\ntext = "def greet(name):\\n    return f\\"hello {name}\\"\\n"\n'
OTHER = (
    '[[step]]\nedit = "long.txt"\nfind = "line 3\\n"\nreplace = "line three\\n"\n'
    '[[step]]\nedit = "long.txt"\nfind = "line 50\\n"\nreplace = "line fifty\\n"\n'
    '[[step]]\nwrite = "notes/other.md"\ntext = "# Other\\n"\n'
)
#: A file for everything that could deceive, break out, or take too long.
HOSTILE = r"""
printf '<script>window.hacked = 1</script>\n<img src=x onerror="window.hacked=2">\n' > 'a<script>window.hacked=3<&script>.html'
printf 'if admin\342\200\256:\n' > 'q"uote '"'"'s.py'
printf 'caf\303\251\n' > "$(printf 'not-utf8-\377.txt')"
mkdir -p 'deep/er/and deeper' && printf 'x\n' > "deep/er/and deeper/$(printf 'new\nline.txt')"
awk 'BEGIN { for (i = 0; i < 60000; i++) printf "var a%d=1;", i; print "" }' > long-line.js
head -c 4000 /dev/urandom > picture.bin
git mv moved.txt elsewhere.txt && echo more >> elsewhere.txt
chmod +x tool.sh
sed -i 's/^line 30$/line thirty/' long.txt
mkdir many && i=0 && while [ $i -lt 5000 ]; do echo $i > many/file-$i.txt; i=$((i + 1)); done
awk 'BEGIN { for (i = 0; i < 30000; i++) print "row " i }' > many-lines.txt
"""


def submitted(server: Server, repo: Repo, agents: list[str], checks: list[str] | None = None) -> str:
    run = server.client.submit("make it so", repo=str(repo.folder), agents=agents, checks=checks or []).run
    server.client.wait(run)
    return run


def opened(page: Page, name: str) -> None:
    """Wait until the lines of a file are there."""
    expect(page.locator("details.file", has=page.get_by_text(name, exact=True)).locator(".bk").first).to_be_visible()


def test_the_whole_way_from_the_form_to_the_undoing(browser: Browser, server: Server, repo: Repo) -> None:
    agents = [server.corral.script(GOOD, "good.toml"), server.corral.script(OTHER, "other.toml")]
    repo.commit({"long.txt": TEXT})
    before = repo.fingerprint()
    with looking(browser, server) as eyes:
        page = eyes.open("/new")
        page.get_by_label("What is to be done?").fill("greet people")
        page.get_by_label("Other agents").fill(", ".join(agents))
        page.get_by_label("Other checks").fill("test -s long.txt")
        page.get_by_label(re.compile("^Repository")).select_option(str(repo.folder))
        page.wait_for_url("**/new?repo=*")  # the checks of that repository; what was entered is still there
        expect(page.locator("#command")).to_contain_text("--check 'test -s long.txt'")
        expect(page.get_by_label("Other agents")).to_have_value(", ".join(agents))
        assert page.locator("#command").inner_text().startswith("corral run 'greet people' --repo ")
        page.get_by_role("button", name="Start").click()
        page.wait_for_url("**/runs/01*")
        run = page.url.rpartition("/")[2]
        until(lambda: server.client.show(run).status == "waiting", "none is proven better")
        eyes.complaints.clear()  # the screen of the run is looked at elsewhere

        page = eyes.open(f"/runs/{run}/compare")
        expect(page.locator(".ranking tbody tr")).to_have_count(2)
        expect(page.locator("tr.won")).to_have_count(0)
        loser = page.locator("tr:not(.won)", has=page.get_by_text("Pick this one")).last
        named = loser.get_attribute("id") or ""
        loser.get_by_role("button", name="Pick").click()
        expect(page.locator(f"#{named}.won")).to_be_visible()
        winner = server.client.show(run).nodes[0].winner
        assert named == f"attempt-{winner}"
        page.locator("#attempt-" + str(winner)).get_by_role("link", name="Merge…").click()

        expect(page.get_by_role("heading", name="What will happen")).to_be_visible()
        files = server.client.show(run).nodes[0].attempts[int(str(winner).rpartition("-")[2]) - 1].files_changed
        for name in files:
            expect(page.locator("#preview").get_by_text(name, exact=True)).to_be_visible()
        page.get_by_label(re.compile("^Only a new branch")).check()
        expect(page.locator("#preview")).to_contain_text("A new branch is made")
        page.get_by_label(re.compile("^Squash")).check()
        expect(page.locator("#preview")).to_contain_text("moves on")
        page.get_by_role("button", name="Merge now").click()
        expect(page.get_by_role("heading", name="Undo")).to_be_visible()
        assert all((repo.folder / name).exists() for name in files)
        assert repo.git("rev-list", "--count", "HEAD") == "3"
    examine_all(browser, server, {f"/runs/{run}/compare": "compare", f"/runs/{run}/merge": "merged"})
    repo.commit({"newer.txt": "newer\n"})
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/merge")
        expect(page.locator(".notice", has_text="It cannot be undone now")).to_contain_text("1 newer commit")
        repo.git("reset", "--quiet", "--hard", "HEAD~1")
        page.reload()
        page.get_by_role("button", name="Undo the merge").click()
        expect(page.get_by_text("Its merge was undone")).to_be_visible()
    after = repo.fingerprint()
    assert {key: after[key] for key in after if not key.startswith(".git/")} == {
        key: before[key] for key in before if not key.startswith(".git/")
    }
    examine(browser, server, f"/runs/{run}/merge", "merge")


def test_parts_of_two_attempts_become_one_result(eyes: Eyes, server: Server, repo: Repo) -> None:
    repo.commit({"long.txt": TEXT})
    mine = OTHER.replace("notes/other.md", "mine.md").replace("line fifty", "line 5-0").replace("line three", "LINE 3")
    mine += '[[step]]\nrun = "chmod +x src/b.txt"\n'
    agents = [server.corral.script(OTHER, "one.toml"), server.corral.script(mine, "two.toml")]
    run = submitted(server, repo, agents)
    page = eyes.open(f"/runs/{run}/compare")
    opened(page, "long.txt")
    page.get_by_role("link", name="How they differ").click()
    opened(page, "long.txt")
    expect(page.locator(".del").first).to_have_text(re.compile("line three|LINE 3"))
    page.go_back()
    form = page.locator("form", has=page.get_by_text("See what would be merged"))
    row = form.locator("tr", has=page.get_by_text("long.txt", exact=True))
    row.get_by_label(re.compile("neither")).check()
    row.get_by_text("choose pieces of it").click()
    pieces = row.locator(".piece")
    expect(pieces).to_have_count(4)
    pieces.filter(has_text=re.compile("LINE 3")).get_by_role("checkbox").check()
    pieces.filter(has_text=re.compile("line fifty")).get_by_role("checkbox").check()
    form.locator("tr", has=page.get_by_text("mine.md", exact=True)).get_by_label("neither").check()
    page.get_by_role("button", name="See what would be merged").click()
    expect(page.locator("#preview")).to_contain_text("notes/other.md")
    (repo.folder / "a.txt").write_text("mine\n")
    page.get_by_role("button", name="Merge now").click()
    expect(page.locator("[data-problem]").get_by_text("not clean: a.txt")).to_be_visible()
    eyes.complaints.clear()  # browsers write down every refusal
    page.get_by_label("put my own uncommitted changes aside").check()
    expect(page.locator("#preview")).to_contain_text("is in the way")
    page.get_by_role("button", name="Merge now").click()
    expect(page.get_by_role("heading", name="Undo")).to_be_visible()
    expected = TEXT.replace("line 3\n", "LINE 3\n").replace("line 50\n", "line fifty\n")
    assert (repo.folder / "long.txt").read_text() == expected
    assert (repo.folder / "notes/other.md").exists()
    assert not (repo.folder / "mine.md").exists()
    assert (repo.folder / "a.txt").read_text() == "mine\n"
    assert (repo.folder / "src/b.txt").stat().st_mode & 0o100


def test_files_that_deceive_break_out_or_are_too_many_are_only_shown(
    browser: Browser, server: Server, repo: Repo
) -> None:
    repo.commit({"long.txt": TEXT, "moved.txt": TEXT, "tool.sh": "#!/bin/sh\n"})
    run = submitted(server, repo, [server.corral.agent("hostile", HOSTILE)])
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/diff")
        expect(page.locator(".bar")).to_contain_text("5,010 files")
        expect(page.locator("[data-file]")).to_have_count(100)
        page.keyboard.press("n")
        expect(page.locator("[data-file].at .path")).to_contain_text("a<script>window.hacked=3")
        opened(page, "a<script>window.hacked=3<&script>.html")
        expect(page.locator("[data-file].at")).to_contain_text('<img src=x onerror="window.hacked=2">')
        assert page.evaluate("window.hacked") is None
        page.get_by_role("link", name="More files").click()
        expect(page.get_by_text("files 101 to 200")).to_be_visible()

        page.get_by_label("Find a file").fill("t")
        page.get_by_label("Find a file").fill("tool.sh")
        expect(page.locator("[data-file]")).to_have_count(1)
        expect(page.get_by_text("now a program").first).to_be_visible()
        for name, words in (
            ("uote", "U+202E"),
            ("not-utf8", "café"),
            ("line.txt", "⟨LF⟩"),
            ("long-line", "more characters"),
            ("picture", "not text: 4,000 bytes"),
            ("elsewhere", "renamed from moved.txt"),
            ("many-lines", "too large to be shown here"),
        ):
            page = eyes.open(f"/runs/{run}/diff?q={name}")
            page.locator("[data-file]").first.evaluate("file => file.open = true")
            expect(page.locator(".files")).to_contain_text(words)
        page = eyes.open(f"/runs/{run}/diff?q=long.txt")
        opened(page, "long.txt")
        expect(page.locator(".del mark")).to_have_text("30")
        expect(page.locator(".ins mark")).to_have_text("thirty")
        assert not page.get_by_text("line 12", exact=True).count()
        page.get_by_role("button", name="Show 26 lines").click()
        expect(page.get_by_text("line 12", exact=True).last).to_be_visible()
        left = page.locator(".del").bounding_box()
        right = page.locator(".ins").bounding_box()
        assert left
        assert right
        assert left["y"] == right["y"], "side by side"
        page.keyboard.press("u")
        below = page.locator(".ins").bounding_box()
        assert below
        assert below["y"] > left["y"], "in one column"
        page.keyboard.press("m")
        page.wait_for_url("**/merge")
    assert server.ask("GET", f"/runs/{run}/diff/file?path=../../etc/passwd").status == 403
    assert server.ask("GET", f"/runs/{run}/diff/file?path=--output=/tmp/x").status == 404
    examine(browser, server, f"/runs/{run}/diff?q=long", "diff")


def test_a_merge_goes_on_while_nobody_looks(browser: Browser, server: Server, repo: Repo) -> None:
    """Its checks take long: the page says how far it is, may be closed, and shows what came of it."""
    signs = server.corral.root / "signs"
    signs.mkdir()
    check = f"test ! -e newer.txt || {{ {waits_for(signs / 'go')}; grep -q good {signs / 'go'}; }}"
    agent = server.corral.script('[[step]]\nwrite = "a.txt"\ntext = "mine"\n')
    asked = ("--agent", agent, "--check", check, "--read", str(signs), "--detach")
    run = server.corral.run(repo, "t", *asked).json["run"]
    assert server.client.wait(run).status == "done"
    repo.commit({"newer.txt": "newer\n"})  # so the merged tree is one that nobody has proven yet
    with looking(browser, server) as other:
        late = other.open(f"/runs/{run}/merge")
        with looking(browser, server) as eyes:
            page = eyes.open(f"/runs/{run}/merge")
            page.get_by_role("button", name="Merge now").click()
            expect(page.get_by_role("heading", name="Merging")).to_be_visible()
            expect(page.locator("#merge-progress")).to_contain_text("on the merged tree")
        late.get_by_role("button", name="Merge now").click()
        expect(late.locator("[data-problem]")).to_contain_text("being merged already")
        other.complaints.clear()  # browsers write down every refusal
        page = other.open(f"/runs/{run}/merge")
        expect(page.locator("#merge-progress")).to_contain_text("You may close this page")
        assert not other.faults()
        other.shot("merge-going")
        head = repo.head
        (signs / "go").write_text("bad")
        expect(page.locator(".problem")).to_contain_text("fails on the merged tree; nothing was moved")
        assert repo.head == head
        (signs / "go").unlink()
        page.get_by_role("button", name="Merge now").click()
        expect(page.get_by_role("heading", name="Merging")).to_be_visible()
        (signs / "soon").write_text("good")
        (signs / "soon").rename(signs / "go")  # the check must not see it before its words are there
        expect(page.get_by_role("heading", name="Undo")).to_be_visible()
        assert (repo.folder / "a.txt").read_text() == "mine"


def test_conflicts_are_settled_file_by_file(browser: Browser, server: Server, repo: Repo) -> None:
    files = {"one.py": "a = 1\n", "two.py": "b = 1\n", "gone.txt": "here\n"}
    repo.commit(files)
    script = "".join(f'[[step]]\nwrite = "{name}"\ntext = "{name[0]} = 2\\n"\n' for name in files)
    run = submitted(server, repo, [server.corral.script(script)])
    (repo.folder / "gone.txt").unlink()
    repo.commit({"one.py": "a = 3\n", "two.py": "b = 3\n"})
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/merge")
        expect(page.locator("#preview")).to_contain_text("3 files in conflict")
        page.get_by_role("button", name="Merge now").click()
        page.wait_for_url("**/conflicts")
        _choose(page, "one.py", "theirs")
        page.get_by_role("button", name="Keep these choices").click()
        expect(page.get_by_text("chosen: theirs")).to_be_visible()
        assert (repo.folder / "one.py").read_text() == "a = 3\n", "nothing lands before all is settled"
    examine(browser, server, f"/runs/{run}/conflicts", "conflicts")
    with looking(browser, server) as eyes:
        page = eyes.open(f"/runs/{run}/conflicts")
        _choose(page, "gone.txt", "ours")
        _choose(page, "two.py", "a text of its own")
        own = page.get_by_label("Text of two.py")
        expect(own).to_have_value(re.compile("<<<<<<<"))
        own.fill("b = 23\n")
        page.get_by_role("button", name="Keep these choices").click()
        expect(page.get_by_role("heading", name="Undo")).to_be_visible()
    assert (repo.folder / "one.py").read_text() == "o = 2\n"
    assert (repo.folder / "two.py").read_text() == "b = 23\n"
    assert not (repo.folder / "gone.txt").exists()


def test_an_agent_settles_conflicts(eyes: Eyes, server: Server, repo: Repo) -> None:
    repo.commit({"one.py": "a = 1\n"})
    run = submitted(server, repo, [server.corral.script('[[step]]\nwrite = "one.py"\ntext = "a = 2\\n"\n')])
    repo.commit({"one.py": "a = 3\n"})
    settles = server.corral.script('[[step]]\nwrite = "one.py"\ntext = "a = 5\\n"\n', "settles.toml")
    page = eyes.open(f"/runs/{run}/conflicts")
    page.get_by_label("Agent", exact=True).fill(settles)
    page.get_by_role("button", name="Hand it over").click()
    expect(page.get_by_text("settled and merged")).to_be_visible()
    assert (repo.folder / "one.py").read_text() == "a = 5\n"


def _choose(page: Page, name: str, words: str) -> None:
    file = page.locator("details.file", has=page.locator(".path", has_text=name))
    file.get_by_role("radio", name=re.compile(f"^{words}")).check()


def test_before_there_is_a_change_screens_teach_and_then_they_show_it(
    browser: Browser, server: Server, repo: Repo
) -> None:
    agent = server.corral.script(
        '[[step]]\nask = "shall I?"\nwait = true\n[[step]]\nwrite = "made.txt"\ntext = "made\\n"\n'
    )
    run = server.client.submit("wait a little", repo=str(repo.folder), agents=[agent]).run
    until(lambda: bool(server.client.inbox()), "it asks")
    with looking(browser, server, phone=True) as eyes:
        for path, words in (
            ("diff", "Nothing was changed"),
            ("compare", "at work"),
            ("merge", "It is not over yet"),
            ("conflicts", "Nothing is in conflict"),
        ):
            page = eyes.open(f"/runs/{run}/{path}")
            expect(page.get_by_text(words)).to_be_visible()
            assert eyes.faults() == []
            assert not eyes.wider_than_window()
        page = eyes.open(f"/runs/{run}/compare")
        server.client.answer(server.client.inbox()[0].id, "yes")
        expect(page.get_by_role("link", name="Look")).to_be_visible()
        expect(page.get_by_text("made.txt")).to_be_visible()
