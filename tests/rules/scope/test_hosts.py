"""What a net list means, as tables: which hosts, which ports, which addresses no name may lead to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.model.errors import BadRequest
from corral.rules.scope import hosts


@pytest.mark.parametrize(
    ("words", "host", "port", "allowed"),
    [
        (["example.org"], "example.org", 443, True),
        (["example.org"], "example.org", 80, True),
        (["example.org"], "example.org", 22, False),
        (["example.org"], "www.example.org", 443, False),
        (["example.org"], "notexample.org", 443, False),
        (["example.org"], "example.org.evil.net", 443, False),
        (["Example.ORG."], "eXample.org.", 443, True),
        (["example.org:8443"], "example.org", 8443, True),
        (["example.org:8443"], "example.org", 443, False),
        (["*.example.org"], "www.example.org", 443, True),
        (["*.example.org"], "a.b.example.org", 443, True),
        (["*.example.org"], "example.org", 443, False),
        (["*.example.org"], "evilexample.org", 443, False),
        (["*.example.org:8443"], "www.example.org", 8443, True),
        (["bücher.example"], "xn--bcher-kva.example", 443, True),
        (["xn--bcher-kva.example"], "BÜCHER.example", 443, True),
        (["[2606:4700::1111]:8443"], "2606:4700:0:0::1111", 8443, True),
        (["2606:4700::1111"], "[2606:4700::1111]", 443, True),
        (["127.0.0.1:8080"], "::ffff:127.0.0.1", 8080, True),
        (["127.0.0.1:8080"], "127.1", 8080, False),
        (["127.0.0.1:8080"], "127.0.0.2", 8080, False),
        (["on"], "anything.example", 12345, True),
        (["on"], "2130706433", 80, False),
        (["on"], "0x7f.1", 80, False),
        (["on"], "0177.0.0.01", 80, False),
        (["on"], "a b.example", 80, False),
        (["on"], "", 80, False),
        (["on"], "fe80::1%eth0", 80, False),
        (["off"], "example.org", 443, False),
        ([], "example.org", 443, False),
    ],
)
def test_a_host_and_a_port(words: list[str], host: str, port: int, allowed: bool) -> None:
    why = hosts.read(words).refusal(host, port)
    assert (why is None) is allowed, why


def test_a_refusal_says_which_host_and_what_to_add() -> None:
    assert (
        hosts.read([]).refusal("PyPI.org.", 443)
        == 'pypi.org:443 is not in the net list; to allow it add "pypi.org" to net'
    )
    assert str(hosts.read([]).refusal("::1", 8080)).endswith('add "[::1]:8080" to net')
    assert "\n" not in str(hosts.read([]).refusal("a\nb", 443))
    why = str(hosts.read(["mirror.corp"]).address_refusal("mirror.corp", 443, "10.1.2.3"))
    assert "10.1.2.3" in why
    assert '"private:mirror.corp"' in why


PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::1.1.1.1", "2002:101:101::1", "::ffff:8.8.8.8"]
NEVER = [
    "127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "100::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::10.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::1", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:127.0.0.1", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_led_to(address: str) -> None:
    for words in (["on"], ["example.org"], ["*.example.org", "example.org"]):
        assert hosts.read(words).address_refusal("example.org", 443, address) is None


@pytest.mark.parametrize("address", NEVER)
def test_no_name_may_lead_to_what_is_not_public(address: str) -> None:
    for words in (
        ["on"],
        ["example.org"],
        ["on", "example.org"],
        ["on", "*.sub.localhost"],
        ["on", "private:other.example"],
    ):
        assert hosts.read(words).address_refusal("example.org", 443, address)


@pytest.mark.parametrize(
    ("word", "host", "port", "address", "allowed"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1", True),
        ("127.0.0.1:8080", "::ffff:127.0.0.1", 8080, "::ffff:127.0.0.1", True),
        ("[::1]:8080", "::1", 8080, "::1", True),
        ("127.0.0.1:8080", "127.0.0.1", 8081, "127.0.0.1", False),
        ("127.0.0.1:8080", "rebound.example", 8080, "127.0.0.1", False),
        ("169.254.169.254", "169.254.169.254", 80, "169.254.169.254", True),
        ("localhost:8080", "localhost", 8080, "127.0.0.1", True),
        ("localhost:8080", "localhost", 8080, "::1", True),
        ("localhost:8080", "localhost", 8080, "10.0.0.1", False),
        ("app.localhost:8080", "app.localhost", 8080, "127.0.0.1", True),
        ("private:mirror.corp", "mirror.corp", 443, "10.1.2.3", True),
        ("private:mirror.corp", "mirror.corp", 443, "fd00::3", True),
        ("private:mirror.corp", "mirror.corp", 443, "100.64.0.3", True),
        ("private:mirror.corp", "mirror.corp", 443, "127.0.0.1", True),
        ("private:mirror.corp", "mirror.corp", 443, "169.254.169.254", False),
        ("private:mirror.corp", "mirror.corp", 443, "0.0.0.0", False),
        ("private:*.corp", "mirror.corp", 443, "10.1.2.3", True),
        ("mirror.corp", "mirror.corp", 443, "10.1.2.3", False),
    ],
)
def test_what_opens_an_address_that_is_not_public(word: str, host: str, port: int, address: str, allowed: bool) -> None:
    rule = hosts.read(["on", word])
    assert rule.refusal(host, port) is None
    assert (rule.address_refusal(host, port, address) is None) is allowed


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("10.0.0.0/8", "range"),
        ("fd00::/8", "range"),
        ("10.0.0.1-10.0.0.9", "range"),
        ("10.0.0.*", "range"),
        ("10.0.*.*", "range"),
        ("*", "everything"),
        ("*.com", "too wide"),
        ("*.10.0.0.1", "not the address of one host"),
        ("0.0.0.0", "not the address of one host"),
        ("224.0.0.1:80", "not the address of one host"),
        ("https://example.org/x", "URL"),
        ("example.org/path", "no host"),
        ("user@example.org", "no host"),
        ("a*.example.org", "no host"),
        ("example.org:0", "port"),
        ("example.org:99999", "port"),
        ("example.org:https", "no host"),
        ("straße.de", "no host"),
        ("-x.example", "no host"),
        ("a..example", "no host"),
        ("@registries", "no host"),
        ("fe80::1%eth0", "no host"),
        ("", "no host"),
    ],
)
def test_what_is_no_host_is_refused_in_one_line(word: str, says: str) -> None:
    with pytest.raises(BadRequest) as refused:
        hosts.read([word])
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.hint


def test_off_stands_alone() -> None:
    with pytest.raises(BadRequest):
        hosts.read(["off", "example.org"])


def test_the_word_for_a_base_url() -> None:
    assert hosts.of_url("https://api.example.org/v1") == "api.example.org:443"
    assert hosts.of_url("http://127.0.0.1:8080") == "127.0.0.1:8080"
    assert hosts.of_url("http://[::1]:8080/x", private=True) == "[::1]:8080"
    assert hosts.of_url("http://ollama.corp:11434", private=True) == "private:ollama.corp:11434"
    for url in ("ftp://x", "api.example.org", "https://", "http://x:99999"):
        with pytest.raises(BadRequest):
            hosts.of_url(url)


@given(st.text(max_size=40), st.integers(1, 65535))
def test_whatever_is_asked_for_an_empty_list_refuses(host: str, port: int) -> None:
    why = hosts.Hosts().refusal(host, port)
    assert why
    assert "\n" not in why


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "64:ff9b::{}", "::{}"]))
def test_a_wrapped_address_is_what_it_wraps(inner: object, wrapping: str) -> None:
    wrapped = wrapping.format(inner)
    if hosts.kind(str(inner)) == "public":
        assert hosts.kind(wrapped) == "public"
    else:
        assert hosts.kind(wrapped) != "public"
