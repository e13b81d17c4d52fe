"""Secrets are taken out, wherever they stand and however they are cut; nothing else is."""

import base64
import json
import random
import string
import uuid
from itertools import pairwise
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.model.events import Said
from corral.rules.text.redact import LONGEST_SHAPE, SHORTEST, Redactor, Stream, _forms, likely_secrets, multi_search
from tests.rig.tries import tries

SECRET = 'hunter2/with+odd "signs" & ünïcode'
RANDOM = random.Random(7)


def letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(RANDOM.choice(alphabet) for _ in range(count - 1)) + "7"


SHAPED = {
    "anthropic": "sk-ant-api03-" + letters(90),
    "openai": "sk-proj-" + letters(48),
    "openai, old": "sk-" + letters(48),
    "github": "ghp_" + letters(36),
    "github oauth": "gho_" + letters(36),
    "github fine": "github_pat_" + letters(82),
    "gitlab": "glpat-" + letters(20),
    "aws": "AKIA" + letters(16, string.ascii_uppercase),
    "google": "AIza" + letters(35),
    "slack": "xoxb-1234567890-" + letters(24),
    "stripe": "sk_live_" + letters(24),
    "npm": "npm_" + letters(36),
    "pypi": "pypi-" + letters(150),
    "jwt": f"eyJ{letters(30)}.eyJ{letters(200)}.{letters(43)}",
}


@pytest.mark.parametrize("kind", SHAPED)
@pytest.mark.parametrize("frame", ["{}", "key={} ", '"{}"', "x: {}\n", "https://h/?k={}&b=1", "({})", "{{'a': '{}'}}"])
def test_shapes_are_taken_out(kind: str, frame: str) -> None:
    told = Redactor({}).text(frame.format(SHAPED[kind]))
    assert SHAPED[kind][-12:] not in told
    assert "[redacted]" in told
    assert told.startswith(frame.split("{", maxsplit=1)[0][:4])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Authorization: Bearer abcDEF1234567890xyz", "Authorization: Bearer [redacted]"),
        ('{"authorization":"Bearer abcDEF1234567890xyz"}', '{"authorization":"Bearer [redacted]"}'),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [redacted]"),
        ("x-api-key: 0123456789abcdef0", "x-api-key: [redacted]"),
        ('"X-Api-Key": "0123456789abcdef0"', '"X-Api-Key": "[redacted]"'),
        ("git clone https://ada:pa55word@host/x.git", "git clone https://ada:[redacted]@host/x.git"),
        ("postgres://u:p@db:5432/x", "postgres://u:[redacted]@db:5432/x"),
    ],
)
def test_what_stands_before_a_secret_stays(text: str, told: str) -> None:
    assert Redactor({}).text(text) == told


def private_key(newline: str = "\n") -> str:
    lines = [letters(64) for _ in range(25)]
    return newline.join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----"])


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n"])
def test_private_keys_are_taken_out(newline: str) -> None:
    key = private_key(newline)
    told = Redactor({}).text(f'before "{key}" after')
    assert told == 'before "[redacted]" after'


INNOCENT = [
    "commit 4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    str(uuid.UUID(int=RANDOM.getrandbits(128))),
    base64.b64encode(RANDOM.randbytes(3000)).decode(),
    "sk-loading-spinner-container-large and task-management-system-2024-overview",
    "the bearer of this authentication-certificate is known",
    "see https://example.org:8443/path?x=1 and mailto:ada@example.org and git@host:ada/x.git",
    'if text.startswith("-----BEGIN PRIVATE KEY-----"):',
    "-----BEGIN PUBLIC KEY-----\n" + letters(64) + "\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + letters(64) + "\n-----END CERTIFICATE-----",
    "sha512-" + base64.b64encode(RANDOM.randbytes(64)).decode(),
    "eyJ is how JSON begins in base64",
    "api-key: the name of a header",
    "ghp_ and AKIA and xoxb- are prefixes",
    "https://[::1]:80/@scope/package",
    "npm_config_registry=x npm_lifecycle_event=y",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor({"TOKEN": "0123456789secret"}).text(text) == text


# --- values we know


def test_every_way_a_value_is_written() -> None:
    redactor = Redactor({"DB": SECRET})
    inner = base64.b64encode(f"user:{SECRET}!".encode()).decode()
    ways = [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps({"line": json.dumps({"x": SECRET})}),
        quote(SECRET, safe=""),
        f"https://host/?a={quote(SECRET)}",
        SECRET.encode().hex(),
        f"'{SECRET}'",
        *(base64.b64encode(b"x" * before + SECRET.encode() + b"tail").decode() for before in range(4)),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        inner,
    ]
    for way in ways:
        told = redactor.text(f"a {way} b")
        assert "[redacted DB]" in told, way
        assert told.startswith("a ")
        assert told.endswith(" b")


def test_short_values_are_words() -> None:
    assert Redactor({"MODE": "test", "EMPTY": ""}).text("a test") == "a test"


def test_a_value_that_begins_another() -> None:
    redactor = Redactor({"A": "secret-one", "B": "secret-one-and-two"})
    assert redactor.text("secret-one-and-two secret-one!") == "[redacted B] [redacted A]!"


def test_a_known_value_before_another_secret() -> None:
    told = Redactor({"USER": "known-user-name"}).text("https://known-user-name:pa55@host")
    assert "known-user-name" not in told
    assert "pa55" not in told


def test_bytes_that_are_no_text_come_back() -> None:
    data = bytes(range(256)) * 4
    assert Redactor({"X": "0123456789abcdefX"}).data(data) == data
    assert Redactor({}).text("lone \ud800 sk-ant-" + letters(40)) == "lone \ud800 [redacted]"


def test_which_variables_are_secret() -> None:
    environment = {"ANTHROPIC_API_KEY": "a", "GITHUB_TOKEN": "b", "DB_PASSWORD": "c", "LANG": "d", "PATH": "e"}
    assert set(likely_secrets(environment)) == {"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD"}


# --- in pieces


def in_pieces(redactor: Redactor, data: bytes, cuts: list[int]) -> bytes:
    stream = Stream(redactor)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    told = [stream.feed(data[start:end]) for start, end in pairwise(places)]
    return b"".join([*told, stream.close()])


value = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=40).filter(lambda text: len(text.strip()) >= 8)  # fmt: skip
filler = st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.sampled_from([b"\n", b"Bearer ", b"://a:", b"sk-", b"-----BEGIN RSA PRIVATE KEY-----\n"])  # fmt: skip


@given(st.lists(value, min_size=1, max_size=3), st.lists(filler, max_size=6), st.lists(st.integers(0, 1 << 20), max_size=12), st.randoms(use_true_random=False))  # fmt: skip
@settings(max_examples=tries(200), deadline=None)
def test_no_known_value_survives_any_cutting(values: list[str], around: list[bytes], cuts: list[int], dice: random.Random) -> None:  # fmt: skip
    redactor = Redactor({f"N{number}": text for number, text in enumerate(values)})
    parts = [*around, *(text.encode() for text in values for _ in range(2))]
    dice.shuffle(parts)
    told = in_pieces(redactor, b"".join(parts), cuts)
    for text in values:
        clean = told.replace(b"[redacted", b"")
        assert text.strip().encode() not in clean


@pytest.mark.parametrize("secret", [*SHAPED.values(), private_key(), private_key("\\n"), "https://ada:pa55word@host/x"])
def test_no_shape_survives_any_cutting(secret: str) -> None:
    redactor = Redactor({})
    data = f"first line\nsecond {secret} rest\nlast".encode()
    whole = redactor.data(data)
    assert b"[redacted]" in whole
    for cut in range(len(data)):
        assert in_pieces(redactor, data, [cut]) == whole
    assert in_pieces(redactor, data, list(range(len(data)))) == whole


def test_a_key_of_several_lines_that_is_known() -> None:
    key = "line one is long enough to know\nline two is long enough to know\nend"
    redactor = Redactor({"KEY": key})
    data = f"a\n{key}\nb\n".encode()
    for cut in range(len(data)):
        assert in_pieces(redactor, data, [cut]) == b"a\n[redacted KEY]\nb\n"


def test_little_is_held_back() -> None:
    stream = Redactor({"T": "0123456789abcdef"}).stream()
    assert stream.feed(b"one\ntwo") == b"one\n"
    assert stream.feed(b"\n") == b"two\n"
    total = 0
    for _ in range(100):
        total += len(stream.feed(b"x" * 4096))
    assert 100 * 4096 - total <= LONGEST_SHAPE
    assert total + len(stream.close()) == 100 * 4096


@pytest.mark.parametrize("hostile", ["sk-", "eyJa.eyJ", "-----BEGIN ", "://a:", "Bearer ", "-----BEGIN PRIVATE KEY-----", "eyJ" + "a" * 40, "://" + "a" * 200, "Authorization: "])  # fmt: skip
def test_hostile_text_is_read_in_one_go(hostile: str) -> None:
    text = hostile * (400_000 // len(hostile))
    assert len(Redactor({"T": "0123456789abcdef"}).text(text)) > 0


@given(
    value=st.text(st.characters(exclude_categories=["Cs"]), min_size=SHORTEST, max_size=40),
    before=st.text(max_size=5),
    after=st.text(max_size=5),
)
def test_that_no_form_of_a_secret_hides_in_an_event_that_is_told_in_json(value: str, before: str, after: str) -> None:
    redactor = Redactor({"KEY": value})
    for form in _forms(value):
        text = before + form.decode("utf-8", "surrogatepass") + after
        assert redactor.may_hold(msgspec.json.encode(Said(text)))
        assert redactor.may_hold(text.encode())


@given(st.sets(st.binary(min_size=1, max_size=6), max_size=8), st.binary(max_size=60))
def test_that_a_sieve_tells_of_each_of_its_words_and_of_nothing_else(words: set[bytes], data: bytes) -> None:
    assert multi_search(frozenset(words))(data) == any(word in data for word in words)
