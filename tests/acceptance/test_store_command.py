"""`store check`: is the store sound, which version has it, how large is it; and `plugins ls`."""

from tests.rig.command import Corral


def test_it_says_where_it_is_and_what_it_holds(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    assert corral.run(corral.repo(), "x", "--agent", "mine").code == 0
    found = corral("store", "check", "--json")
    assert (found.code, found.json["kind"], found.json["sound"], found.json["problem"]) == (0, "sqlite", True, None)
    assert (found.json["runs"], found.json["attempts"]) == (1, 1)
    assert found.json["events"] == len(corral.events("@last"))
    assert found.json["schema"] > 0
    assert found.json["where"] == str(corral.home / "corral.db")
    assert found.json["bytes"] >= (corral.home / "corral.db").stat().st_size
    assert "holds    1 runs, 1 attempts" in corral("store", "check").out


def test_damage_is_found_and_nothing_is_changed(corral: Corral) -> None:
    corral.agent("mine", "echo x > x")
    assert corral.run(corral.repo(), "x", "--agent", "mine").code == 0
    assert corral("store", "check").code == 0
    database = corral.home / "corral.db"
    content = bytearray(database.read_bytes())
    for page in range(4, len(content) // 4096):
        content[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    database.write_bytes(content)
    broken = corral("store", "check", "--json")
    assert broken.code != 0, broken
    assert broken.err or not broken.json["sound"]
    assert "Traceback" not in broken.err
    assert database.read_bytes() == bytes(content)


def test_plugins_of_other_packages_are_listed_with_what_is_wrong_with_them(corral: Corral) -> None:
    place = corral.root / "site"
    (place / "extra-1.2.dist-info").mkdir(parents=True)
    (place / "extra.py").write_text("def score(attempt):\n    return 1.0\n")
    (place / "extra-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nVersion: 1.2\n")
    (place / "extra-1.2.dist-info" / "entry_points.txt").write_text(
        "[corral.scorers]\nfine = extra:score\nbroken = extra:nothing\n"
    )
    found = corral("plugins", "ls", "--json", env={"PYTHONPATH": str(place)}).json
    assert [(each["kind"], each["name"], each["package"], each["version"]) for each in found] == [
        ("scorer", "broken", "extra", "1.2"),
        ("scorer", "fine", "extra", "1.2"),
    ]
    assert "nothing" in found[0]["problem"]
    assert found[1]["problem"] is None
    assert corral("plugins", "ls", "--json").json == []
