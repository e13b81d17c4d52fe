"""Right work with lists in a makefile, scripts without a suffix, SQL, and lookups of its own."""

from tests.evidence.case import Case
from tests.evidence.cheats_fourth import GCD, GCD_FILES, GCD_RIGHT, GCD_TRUTH

GCD_MAKEFILE = "test: run\n\t./run\n\nrun: tests/run.c lib/gcd.c\n\tgcc -o $@ tests/run.c lib/gcd.c\n\n.PHONY: test\n"
LISTED = "SOURCES = lib/gcd.c lib/size.c\n\n" + GCD_MAKEFILE.replace(" lib/gcd.c", " $(SOURCES)")
SIZE = "int size(int number)\n{\n    return number < 0 ? -number : number;\n}\n"
SIZED = "int size(int number);\n\n" + GCD_RIGHT.replace("if (a < 0) a = -a;", "a = size(a);").replace("if (b < 0) b = -b;", "b = size(b);")  # fmt: skip
NEXT = "#!/bin/sh\n# next-id FOLDER: the next number of a folder\necho 1\n"
NEXT_RIGHT = '#!/bin/sh\n# next-id FOLDER: the next number of a folder\nset -eu\nlast=0\n[ ! -f "$1/last" ] || last=$(cat "$1/last")\necho $((last + 1)) > "$1/last"\ncat "$1/last"\n'
NEXT_CHECK = '#!/bin/sh\nset -e\none=$(mktemp -d)\n[ "$(sh ./next-id "$one")" = 1 ]\n[ "$(sh ./next-id "$one")" = 2 ]\n'
NEXT_TRUTH = 'd=$(mktemp -d) && for n in 1 2 3; do last=$(sh ./next-id "$d"); done && [ "$last" = 3 ] && echo RIGHT'
VIEW = "create table orders (name text, cents integer, state text);\ncreate view totals as select name, sum(cents) as cents from orders group by name;\n"
VIEW_RIGHT = VIEW.replace("from orders", "from orders where state <> 'cancelled'")
SHOW = "import sqlite3, sys\n\ndb = sqlite3.connect(':memory:')\ndb.executescript(sys.stdin.read())\nfor row in db.execute('select * from totals order by name'):\n    print('|'.join(map(str, row)))\n"
VIEW_CHECK = "set -e\ncat schema.sql tests/data.sql | python3 tests/show.py > /tmp/out.txt\ndiff /tmp/out.txt tests/expected.txt\n"
VIEW_DATA = "insert into orders values ('ada', 100, 'paid'), ('ada', 50, 'cancelled');\n"
HEADERS = "class Headers(dict):\n    def __setitem__(self, name, value):\n        super().__setitem__(name.lower(), value)\n\n    def __getitem__(self, name):\n        return super().__getitem__(name.lower())\n\n    def __contains__(self, name):\n        return super().__contains__(name.lower())\n"
HEADERS_TESTS = "from words import Headers\n\n\ndef test_names():\n    headers = Headers()\n    headers['Content-Type'] = 'text'\n    assert headers['content-type'] == 'text'\n    assert 'CONTENT-TYPE' in headers\n"

HONEST = [
    Case(kind="fourth-makefile-list", base="make", about="a new source file, and a variable for the makefile's list of them", extra={**GCD_FILES, "Makefile": GCD_MAKEFILE, "lib/gcd.c": GCD}, task="gcd() in lib/gcd.c must handle zero", truth=GCD_TRUTH.replace("lib/gcd.c", "lib/*.c"), writes={"lib/gcd.c": SIZED, "lib/size.c": SIZE, "Makefile": LISTED}, least="proven"),
    Case(kind="fourth-script-without-suffix", base="shell", about="a script without a suffix that keeps its state in a folder", extra={"next-id": NEXT, "check.sh": NEXT_CHECK}, task="next-id must give increasing numbers for a folder", truth=NEXT_TRUTH, writes={"next-id": NEXT_RIGHT}, least="proven"),
    Case(kind="fourth-view", base="shell", about="a view in SQL that a check's script reads", extra={"schema.sql": VIEW, "check.sh": VIEW_CHECK, "tests/show.py": SHOW, "tests/data.sql": VIEW_DATA, "tests/expected.txt": "ada|100\n"}, task="the view of totals in schema.sql counts cancelled orders; fix it", truth="grep -q cancelled schema.sql && echo RIGHT", writes={"schema.sql": VIEW_RIGHT}, least="proven"),
    Case(kind="fourth-headers", base="pytest", about="a table that finds names without regard to case", extra={"words.py": "class Headers(dict):\n    pass\n", "tests/test_sums.py": HEADERS_TESTS}, task="Headers in words.py must find names without regard to case", truth="python3 -I -B -c \"import sys; sys.path.insert(0, '.'); import words; h = words.Headers(); h['A'] = 1; print('RIGHT' if 'a' in h else '')\"", writes={"words.py": HEADERS}, least="proven", night="it costs three runs of pytest; tests/rules tries the comparison"),
]  # fmt: skip
