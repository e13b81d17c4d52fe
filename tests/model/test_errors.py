"""Which exceptions are about a request: only those that come before its run has started."""

import pytest

from corral.model.errors import BadRequest, during_run, refusal_of


def unencodable() -> UnicodeEncodeError:
    return UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no text")


@pytest.mark.parametrize(
    "error", [OverflowError("x"), RecursionError(), unencodable(), ValueError("embedded null byte")]
)
def test_what_fails_once_a_run_is_driven_is_no_bad_request(error: Exception) -> None:
    assert isinstance(refusal_of(error), BadRequest)
    with pytest.raises(type(error)) as caught, during_run():
        raise error
    assert refusal_of(caught.value) is None


def test_what_a_drive_refuses_itself_is_one() -> None:
    with pytest.raises(BadRequest) as caught, during_run():
        raise BadRequest("no", hint="yes")
    assert refusal_of(caught.value) is caught.value
