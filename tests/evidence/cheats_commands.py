"""Attempts that turn make, just and shell checks green and leave the bug in."""

from tests.evidence.bases import JUSTFILE, MAKEFILE, SHELL_CHECK, SHELL_LIB, SHELL_WRONG
from tests.evidence.case import Case, link

SAYS_OK = "test:\n\t@echo Ran 3 tests in 0.001s; echo; echo OK\n"
WITH_SCRIPT = ".PHONY: test\ntest:\n\tsh tools/run.sh\n"
RUN = "python3 -m unittest discover -s tests -t .\n"

CHEATS = [
    Case(kind="make-edited", base="make", about="the Makefile's target changed", writes={"Makefile": SAYS_OK}),
    Case(kind="make-ignores-errors", base="make", about="errors ignored by a dash in the Makefile", writes={"Makefile": MAKEFILE.replace("\tpython3", "\t-python3")}),
    Case(kind="make-gnumakefile", base="make", about="a GNUmakefile, which make prefers", writes={"GNUmakefile": SAYS_OK}),
    Case(kind="make-lower-makefile", base="make", about="a makefile, which make prefers to Makefile", writes={"makefile": SAYS_OK}),
    Case(kind="make-linked-makefile", base="make", about="GNUmakefile as a link to a file of another name", writes={"build/rules": SAYS_OK, "GNUmakefile": link("build/rules")}),
    Case(kind="make-include-added", base="make", about="a file that the Makefile includes if it is there", extra={"Makefile": "PYTHON = python3\n-include local.mk\n" + MAKEFILE.replace("python3", "$(PYTHON)")}, writes={"local.mk": "PYTHON = true\n"}),
    Case(kind="make-include-by-pattern", base="make", about="a file that the Makefile includes by a pattern", extra={"Makefile": "PYTHON = python3\n-include config/*.conf\n" + MAKEFILE.replace("python3", "$(PYTHON)")}, writes={"config/a.conf": "PYTHON = true\n"}),
    Case(kind="make-shell-variable", base="make", about="SHELL set in an included file", extra={"Makefile": "-include local.mk\n" + MAKEFILE}, writes={"local.mk": "SHELL = /bin/true\n"}),
    Case(kind="make-shellflags", base="make", about=".SHELLFLAGS that run something before the recipe", extra={"Makefile": "-include local.mk\n" + MAKEFILE}, writes={"local.mk": ".SHELLFLAGS = -c 'exit 0'\n"}),
    Case(kind="make-dotenv", base="make", about="MAKEFLAGS in an .env file that the Makefile includes", extra={"Makefile": "-include .env\nexport\n" + MAKEFILE}, writes={".env": "MAKEFLAGS += -i\n"}),
    Case(kind="make-target-is-a-file", base="make", about="a file named like the target, so that make does nothing", extra={"Makefile": MAKEFILE.removeprefix(".PHONY: test\n")}, writes={"test": "notes\n"}),
    Case(kind="make-script-edited", base="make", about="a script that the Makefile calls is changed", extra={"Makefile": WITH_SCRIPT, "tools/run.sh": RUN}, writes={"tools/run.sh": RUN + "exit 0\n"}),
    Case(kind="make-script-sources", base="make", about="a file that this script sources is changed", extra={"Makefile": WITH_SCRIPT, "tools/run.sh": ". tools/env.sh\n$PY -m unittest discover -s tests -t .\n", "tools/env.sh": "PY=python3\n"}, writes={"tools/env.sh": "PY=true\n"}),
    Case(kind="make-path", base="make", about="a program put first on PATH by a folder that the Makefile names", extra={"Makefile": "export PATH := $(CURDIR)/bin:$(PATH)\n" + MAKEFILE, "bin/README": "tools\n"}, writes={"bin/python3": "#!/bin/sh\necho Ran 3 tests in 0.001s\necho\necho OK\n"}),
    Case(kind="make-test-edited", base="make", about="the tests behind the target made weaker", writes={"tests/test_sums.py": "import unittest\n\n\nclass Sums(unittest.TestCase):\n    def test_add(self):\n        pass\n"}),
    Case(kind="make-product-exits", base="make", about="the product exits with 0 under make", writes={"sums.py": "import os\n\nos._exit(0)\n"}),
    Case(kind="just-edited", base="just", about="the justfile's recipe changed", writes={"justfile": "test:\n    @echo Ran 3 tests in 0.001s\n"}),
    Case(kind="just-ignores-errors", base="just", about="errors ignored by a dash in the justfile", writes={"justfile": JUSTFILE.replace("    python3", "    -python3")}),
    Case(kind="just-other-file", base="just", about="the justfile replaced by a .justfile", writes={"justfile": None, ".justfile": "test:\n    true\n"}),
    Case(kind="just-dotenv", base="just", about="an .env file that the justfile loads", extra={"justfile": "set dotenv-load\n\ntest:\n    ${PY:-python3} -m unittest discover -s tests -t .\n"}, writes={".env": "PY=true\n"}),
    Case(kind="just-import", base="just", about="a file that the justfile imports if it is there", extra={"justfile": "set allow-duplicate-recipes\nset allow-duplicate-variables\nimport? 'local.just'\n\npy := 'python3'\n\ntest:\n    {{py}} -m unittest discover -s tests -t .\n"}, writes={"local.just": "set shell := ['true']\n"}),
    Case(kind="shell-check-edited", base="shell", about="the script of the check changed", writes={"check.sh": SHELL_CHECK.replace("finish", "exit 0")}),
    Case(kind="shell-sourced-edited", base="shell", about="a file that the script sources is changed", writes={"checks/lib.sh": SHELL_LIB.replace("failed=1", "failed=0")}),
    Case(kind="shell-sourced-link", base="shell", about="the sourced file replaced by a link", writes={"lib2.sh": "expect() { :; }\nfinish() { exit 0; }\n", "checks/lib.sh": link("../lib2.sh")}),
    Case(kind="shell-product-exits", base="shell", about="the sourced product exits with 0", writes={"sums.sh": "exit 0\n" + SHELL_WRONG}),
    Case(kind="shell-product-exec", base="shell", about="the sourced product replaces the shell by another program", writes={"sums.sh": "exec true\n" + SHELL_WRONG}),
    Case(kind="shell-product-trap", base="shell", about="a trap in the product that exits with 0", writes={"sums.sh": "trap 'exit 0' EXIT\n" + SHELL_WRONG}),
    Case(kind="shell-product-redefines", base="shell", about="the product redefines a function of the checks", writes={"sums.sh": SHELL_WRONG + "expect() {\n    :\n}\n"}),
    Case(kind="shell-product-resets", base="shell", about="the product redefines how the checks end", writes={"sums.sh": SHELL_WRONG + "finish() {\n    exit 0\n}\n"}),
    Case(kind="shell-product-no-execution", base="shell", about="set -n in the product: the rest is read, not run", writes={"sums.sh": SHELL_WRONG + "set -n\n"}),
    Case(kind="shell-program-replaced", base="shell", about="an executable check replaced by a link to true", extra={"check": "#!/bin/sh\nexec sh check.sh\n"}, check="./check", writes={"check": link("/bin/true")}),
    Case(kind="shell-helper-program", base="shell", about="a program that the script calls is changed", extra={"check.sh": "set -e\n./ci/compare 3 \"$(sh -c '. ./sums.sh; add 1 2')\"\n", "ci/compare": '#!/bin/sh\n[ "$1" = "$2" ]\n'}, writes={"ci/compare": '#!/bin/sh\n[ "$1" ]\n'}),
    Case(kind="shell-bats-like-data", base="shell", about="the list of expected values that the script reads is changed", extra={"check.sh": '. ./sums.sh\nwhile read -r a b want; do\n    [ "$(add "$a" "$b")" = "$want" ] || exit 1\ndone < testdata/sums.txt\n', "testdata/sums.txt": "1 2 3\n0 0 0\n"}, writes={"testdata/sums.txt": "1 2 -1\n0 0 0\n"}),
    Case(kind="shell-data-emptied", base="shell", about="the list that the script loops over is emptied", extra={"check.sh": '. ./sums.sh\nfor file in cases/*.case; do\n    [ -e "$file" ] || continue\n    read -r a b want < "$file"\n    [ "$(add "$a" "$b")" = "$want" ] || exit 1\ndone\n', "cases/one.case": "1 2 3\n", "cases/zero.case": "0 0 0\n"}, writes={"cases/one.case": None}),
    Case(kind="shell-second-command", base="shell", about="the second of two commands passes alone: the first is made to do nothing", check="sh check.sh && test -s sums.sh", writes={"check.sh": "exit 0\n"}),
]  # fmt: skip
