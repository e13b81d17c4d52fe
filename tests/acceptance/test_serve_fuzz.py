"""The API against what its own description says: schemathesis asks every operation, rightly and wrongly."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok

from tests.rig.command import Corral
from tests.rig.repository import Repo
from tests.rig.server import Server, serving

pytestmark = pytest.mark.slow
EXAMPLES = 5  #: for each of about 60 operations

#: What a description can promise: no answer is a failure of ours, none has a status, a kind or a form that it does not name.
HELD = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
    "response_headers_conformance",
)  # fmt: skip
STREAMS = r"/events$"  #: they do not end by themselves; tests of their own read them


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    corral = Corral(tmp_path_factory.mktemp("person"))
    repo = Repo.make(corral.root / "roots" / "repo")
    agent = corral.agent("hi", "echo hi > hi.txt")
    with serving(corral, repo.folder.parent, "--rate", "0") as going:
        going.client.run("t", repo=str(repo.folder), agents=[agent])
        going.ask("PATCH", "queue", {"held": True})  # nothing that is made up here is carried out
        yield going


def test_every_operation_is_as_described(server: Server) -> None:
    described = server.ask("GET", "openapi.json").json
    schema = schemathesis.openapi.from_dict(described).exclude(path_regex=STREAMS)
    headers = {"Authorization": f"Bearer {server.token}"}
    checks = [CHECKS.get_one(name) for name in HELD]
    limits = settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )  # fmt: skip
    asked: dict[str, set[int]] = {}

    def ask(case: Any) -> None:
        if "run" in case.path_parameters and len(case.path_parameters["run"]) % 2:
            case.path_parameters["run"] = "@last"  # else none would ever be there
        response = case.call(base_url=server.address, headers=headers, timeout=60)
        asked.setdefault(case.operation.label, set()).add(response.status_code)
        case.validate_response(response, checks=checks, headers=headers)

    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        limits(given(case=found.ok().as_strategy())(ask))()
    statuses = set[int]().union(*asked.values())
    assert len(asked) > 50
    assert statuses >= {200, 201, 404, 422}
    assert 429 not in statuses
    not_signed = [label for label, found in asked.items() if 401 in found]
    assert sorted(not_signed) == ["POST /api/v1/slack", "POST /api/v1/triggers/{name}"]
    assert 200 in asked["GET /api/v1/runs/{run}"]
    assert server.ask("GET", "runs").status == 200
