"""What is said of a run that cannot be merged yet."""

import pytest

from corral.model import Run
from corral.model.errors import BadRequest
from corral.rules.merge import merge


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (None, "wait for it: corral logs -f r1"),
        ("waits in the queue to be taken up", "wait for it: corral logs -f r1"),
        ("its process is gone; corral resume continues it", "corral stop r1"),
    ],
)
def test_a_run_that_nobody_drives_is_resumed_or_stopped_not_waited_for(reason: str | None, hint: str) -> None:
    with pytest.raises(BadRequest) as refused:
        merge.attempts_to_merge(Run(run="r1", status="running", reason=reason), None)
    assert hint in refused.value.hint
    assert ("corral resume r1" in refused.value.hint) == ("corral stop r1" in refused.value.hint)
