"""Files in which a check keeps its own result."""

from corral.rules.checks.steering.written_answers import claimed_files

CHECK = "python3 run_tests.py; grep -q good report.json"
PROGRAM = b"open('report.json', 'w')"


def found(
    product: bytes, program: bytes = PROGRAM, check: str = CHECK, before: bytes = b""
) -> dict[str, tuple[str, ...]]:
    contents = {("base", "run_tests.py"): program, ("base", "sums.py"): before, ("delivered", "sums.py"): product}
    base = ["run_tests.py", "sums.py", "data.json"]
    return dict(claimed_files([check], ["sums.py"], ["sums.py"], base, contents))  # type: ignore[arg-type]


def test_work_that_names_the_result_of_its_check_is_found() -> None:
    assert found(b"atexit.register(lambda: open('report.json', 'w'))") == {CHECK: ("report.json",)}


def test_work_may_name_its_own_output_and_what_is_in_the_base() -> None:
    assert not found(b"return a + b")
    assert not found(b"open('report.json', 'w')", program=b"import sums")
    assert not found(b"open('report.json', 'w')", before=b"open('report.json')")
    assert not found(b"open('data.json')", program=b"data.json", check="python3 run_tests.py data.json")
