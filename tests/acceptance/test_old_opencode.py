"""The archived program that was called opencode too: found out by asking, driven in its own way."""

import json

from tests.rig.command import Corral

#: Written from its documents: knows no `run`; `-p PROMPT -f json -q` prints one JSON object.
OLD = """#!/bin/sh
case "$1" in
  run) echo 'Usage: opencode [flags]'; echo '  -p, --prompt'; exit 0;;
  -p) echo "$2" > asked.txt; printf '{"response": "did it"}\\n';;
esac
"""


def test_the_old_program_is_found_out_and_driven(corral: Corral) -> None:
    program = corral.root / "bin" / "opencode"
    program.parent.mkdir()
    program.write_text(OLD)
    program.chmod(0o755)
    corral.config(f'[agents.opencode]\nprogram = "{program}"\n')
    corral.env["OPENAI_API_KEY"] = "sk-scripted"
    repo = corral.repo()
    outcome = corral.run(repo, "write it down", "--agent", "opencode")
    assert outcome.code == 0, outcome
    assert outcome.attempt["output"] == "did it"
    assert repo.read(outcome.attempt["branch"], "asked.txt") == "write it down"
    assert list(json.loads((corral.home / "forms.json").read_text()).values()) == [False]
