# `make demo` shows the whole loop; `make test` passes all tests. Both install what they need first.
PY = .venv/bin/python
# What pytest makes of the tests is kept for the next time, whatever the environment says.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-postgres quick night check format bench vscode docs docs-serve pin clean

demo:            ## the whole loop in a throw-away repository: no key, no config, no network
	@tools/bootstrap run
	@.venv/bin/corral demo

test:            ## every test, those of engines and money also on PostgreSQL, and every check beside them
	@tools/bootstrap dev
	@$(MAKE) --no-print-directory check & checks=$$!; \
	tools/rewrite_tests; tools/in_memory $(PY) -m pytest -n 5 --dist worksteal; tests=$$?; \
	$(MAKE) --no-print-directory test-postgres || tests=$$?; \
	wait $$checks || { echo "error: \`make check\` failed: its words stand among the tests'" >&2; exit 1; }; \
	exit $$tests

test-postgres:   ## the tests of engines, crashes and money, with the store in PostgreSQL
	@tools/bootstrap dev
	@tools/rewrite_tests
	@tools/in_memory $(PY) -m pytest -n 5 --dist worksteal --store postgres tests/acceptance

quick:           ## the tests that take little time
	@tools/bootstrap dev
	@tools/rewrite_tests
	@CORRAL_TRIES=0.2 tools/in_memory $(PY) -m pytest -n 4 --dist worksteal -m "not slow" -q

night:           ## every test, and twenty times as much of what chance decides, new each time
	@tools/bootstrap dev
	@tools/n8n-server/install
	@tools/rewrite_tests
	@CORRAL_TRIES=20 tools/in_memory $(PY) -m pytest -n 5 --dist worksteal -o timeout=14400

check:           ## lint, types, layers, dead code, dependencies
	@tools/bootstrap dev
	@$(PY) -m ruff format --check -q .
	@$(PY) -m ruff check -q .
	@$(PY) -m basedpyright --level error
	@$(PY) tools/lint_imports.py
	@$(PY) -m vulture
	@$(PY) -m deptry src
	@$$(cat .venv/extension)/.bin/tsc -p tools/extension --typeRoots $$(cat .venv/extension)/@types

format:          ## write the code as the formatter wants it
	@tools/bootstrap dev
	@$(PY) -m ruff format -q . && $(PY) -m ruff check -q --fix .

bench:           ## the numbers we promise, as ratios measured in one run
	@tools/bootstrap dev
	@$(PY) -m bench

vscode:          ## the extension of VS Code, packed for its marketplace: build/corral.vsix
	@tools/bootstrap dev
	@mkdir -p build
	@cd editors/vscode && $$(cat ../../.venv/vscode)/node $$(cat ../../.venv/extension)/@vscode/vsce/vsce package --no-dependencies --allow-missing-repository --skip-license --out ../../build/corral.vsix

docs:            ## the documentation as a site, in site/
	@tools/bootstrap dev
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict -q

docs-serve:      ## the documentation on http://127.0.0.1:8000, built again at every change
	@tools/bootstrap dev
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve -a 127.0.0.1:8000

pin:             ## choose versions anew and pin them by hash
	uv pip compile -q --generate-hashes --no-header --python-version 3.11 requirements/run.in -o requirements/run.txt
	uv pip compile -q --generate-hashes --no-header --python-version 3.11 requirements/dev.in -o requirements/dev.txt

clean:
	rm -rf .venv site .pytest_cache .ruff_cache .hypothesis
