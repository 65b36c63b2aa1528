import socket

import pytest

from tollhouse.http_client.targets import (
    SystemResolver,
    TargetRefused,
    TargetRules,
    blocked_kind,
    validate_target,
)

STRICT = TargetRules()
DEVELOPMENT = TargetRules(allow_loopback=True)
PUBLIC_4, PUBLIC_6 = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"


def names(**table: list[str]):
    """A resolver that knows these names, and every other name as a public one."""

    async def resolve(host: str) -> list[str]:
        return table.get(host.replace(".", "_"), [PUBLIC_4])

    return resolve


HOSTILE_TEXTS = {
    "plain http": "http://good.example/hook",
    "ftp": "ftp://good.example/hook",
    "a file": "file:///etc/passwd",
    "gopher": "gopher://good.example:6379/_INFO",
    "javascript": "javascript:alert(1)",
    "no scheme": "good.example/hook",
    "scheme alone": "https://",
    "no host": "https:///hook",
    "no slashes": "https:good.example/hook",
    "nothing": "",
    "a user": "https://admin@good.example/hook",
    "user and password": "https://admin:secret@good.example/hook",
    "host that is a user": "https://good.example@127.0.0.1/hook",
    "backslash": "https://good.example\\@127.0.0.1/hook",
    "newline": "https://good.example/\r\nX-Evil: 1",
    "tab in the host": "https://good\t.example/",
    "space in the host": "https://good.example /hook",
    "NUL": "https://good.example\x00.evil.example/",
    "fragment": "https://good.example/#@127.0.0.1/",
    "too long": "https://good.example/" + "x" * 2_000,
    "decimal": "https://2130706433/",
    "octal": "https://0177.0.0.1/",
    "octal in one": "https://017700000001/",
    "hexadecimal": "https://0x7f000001/",
    "hexadecimal parts": "https://0x7f.0x0.0x0.0x1/",
    "hexadecimal last part": "https://good.0x7f/",
    "two parts": "https://127.1/",
    "three parts": "https://127.0.1/",
    "number too large": "https://4294967297/",
    "part too large": "https://256.256.256.256/",
    "address with a dot": "https://127.0.0.1./",
    "name with a dot": "https://good.example./",
    "localhost": "https://localhost/",
    "localhost with a dot": "https://localhost./",
    "localhost in capitals": "https://LOCALHOST/",
    "under localhost": "https://api.localhost/",
    "short name": "https://intranet/",
    "metadata by name": "https://metadata.google.internal/computeMetadata/v1/",
    "home network": "https://printer.local/",
    "home.arpa": "https://router.home.arpa/",
    "fullwidth digits": "https://\uff11\uff12\uff17.0.0.1/",
    "ideographic stops": "https://127\u30020\u30020\u30021/",
    "enclosed letters": "https://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
    "soft hyphen": "https://local\u00adhost/",
    "percent-encoded digits": "https://%31%32%37.0.0.1/",
    "percent-encoded slash": "https://127.0.0.1%2f.good.example/",
    "port 0": "https://good.example:0/",
    "port 22": "https://good.example:22/",
    "port 25": "https://good.example:25/",
    "port of Redis": "https://good.example:6379/",
    "port of PostgreSQL": "https://good.example:5432/",
    "port too large": "https://good.example:99999/",
    "port twice": "https://127.0.0.1:80:443/",
    "unclosed bracket": "https://[::1/",
    "IPv4 in brackets": "https://[127.0.0.1]/",
    "zone id": "https://[fe80::1%25eth0]/",
    "zone id on a public address": f"https://[{PUBLIC_6}%25eth0]/",
}

HOSTILE_ADDRESSES = {
    "unspecified": "0.0.0.0",  # noqa: S104 - an address to refuse
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.16.0.1",
    "private 172 end": "172.31.255.255",
    "private 192": "192.168.1.1",
    "carrier": "100.64.0.1",
    "carrier's metadata": "100.100.100.200",
    "loopback": "127.0.0.1",
    "loopback elsewhere": "127.255.255.254",
    "link-local": "169.254.0.1",
    "metadata": "169.254.169.254",
    "containers' metadata": "169.254.170.2",
    "Azure's wire server": "168.63.129.16",
    "protocol assignments": "192.0.0.1",
    "Oracle's metadata": "192.0.0.192",
    "documentation 1": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "6to4 relay": "192.88.99.1",
    "benchmark": "198.18.0.1",
    "benchmark end": "198.19.255.255",
    "multicast": "224.0.0.1",
    "multicast end": "239.255.255.255",
    "class E": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "v6 unspecified": "::",
    "v6 loopback": "::1",
    "v6 loopback written out": "0:0:0:0:0:0:0:1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:a9fe:a9fe",
    "mapped public": "::ffff:93.184.216.34",
    "translated": "::ffff:0:127.0.0.1",
    "compatible": "::127.0.0.1",
    "NAT64": "64:ff9b::7f00:1",
    "NAT64 local": "64:ff9b:1::a00:1",
    "discard": "100::1",
    "dummy": "100:0:0:1::1",
    "Teredo": "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "v6 benchmark": "2001:2::1",
    "ORCHID": "2001:20::1",
    "v6 documentation": "2001:db8::1",
    "v6 new documentation": "3fff::1",
    "6to4": "2002:7f00:1::",
    "6to4 of a private address": "2002:c0a8:101::1",
    "6bone": "3ffe::1",
    "SRv6": "5f00::1",
    "unique local": "fd00::1",
    "v6 metadata": "fd00:ec2::254",
    "v6 link-local": "fe80::1",
    "site-local": "fec0::1",
    "v6 multicast": "ff02::1",
    "outside what is in use": "4000::1",
    "outside what is in use, too": "1::1",
}

GOOD = {
    "https://@good.example/hook": "https://good.example/hook",
    "https://good.example/hook": "https://good.example/hook",
    "https://good.example:443/hook": "https://good.example/hook",
    "https://good.example:8443/hook?key=1%2B1": "https://good.example:8443/hook?key=1%2B1",
    "HTTPS://Good.Example/Path": "https://good.example/Path",
    "https://a_b.good.example/": "https://a_b.good.example/",
    "https://127.0.0.1.good.example/": "https://127.0.0.1.good.example/",
    "https://b\u00fccher.example/": "https://xn--bcher-kva.example/",
    "https://xn--bcher-kva.example/": "https://xn--bcher-kva.example/",
    "https://good.example/a@b": "https://good.example/a@b",
    "https://good.example/?u=http://127.0.0.1/": "https://good.example/?u=http://127.0.0.1/",
    f"https://{PUBLIC_4}/hook": f"https://{PUBLIC_4}/hook",
    f"https://[{PUBLIC_6}]/hook": f"https://[{PUBLIC_6}]/hook",
    "https://8.8.8.8:1024/": "https://8.8.8.8:1024/",
}

PUBLIC_ADDRESSES = [
    PUBLIC_4, PUBLIC_6, "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1", "198.17.0.1",
    "198.20.0.1", "223.255.255.255", "2600::1", "2a00:1450:4001::1", "3ffd::1", "2001:200::1", "2003::1",
]  # fmt: skip


def test_there_are_enough_hostile_vectors():
    assert len(HOSTILE_TEXTS) + len(HOSTILE_ADDRESSES) >= 43


@pytest.mark.parametrize("url", HOSTILE_TEXTS.values(), ids=HOSTILE_TEXTS)
async def test_hostile_text_is_refused(url):
    with pytest.raises(TargetRefused):
        await validate_target(url, STRICT, names())


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES.values(), ids=HOSTILE_ADDRESSES)
async def test_name_that_stands_for_a_hostile_address_is_refused(address):
    with pytest.raises(TargetRefused, match="public address") as refused:
        await validate_target("https://hooks.example/", STRICT, names(hooks_example=[address]))
    assert address not in str(refused.value)


@pytest.mark.parametrize("address", HOSTILE_ADDRESSES.values(), ids=HOSTILE_ADDRESSES)
async def test_hostile_address_in_the_url_is_refused(address):
    with pytest.raises(TargetRefused):
        await validate_target(f"https://[{address}]/" if ":" in address else f"https://{address}/", STRICT, names())


async def test_one_hostile_address_among_public_ones_is_refused():
    with pytest.raises(TargetRefused):
        await validate_target("https://hooks.example/", STRICT, names(hooks_example=[PUBLIC_4, PUBLIC_6, "10.0.0.1"]))


async def test_name_that_resolves_to_nothing_is_refused():
    with pytest.raises(TargetRefused, match="does not resolve"):
        await validate_target("https://hooks.example/", STRICT, names(hooks_example=[]))
    with pytest.raises(TargetRefused, match="does not resolve"):
        await validate_target("https://hooks.example/", STRICT, names(hooks_example=["no address"]))


async def test_name_server_that_fails_refuses():
    async def resolve(_host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    with pytest.raises(TargetRefused, match="does not resolve"):
        await validate_target("https://hooks.example/", STRICT, resolve)


@pytest.mark.parametrize(("url", "called"), GOOD.items())
async def test_good_target_passes_in_its_canonical_form(url, called):
    assert await validate_target(url, STRICT, names(hooks_example=[PUBLIC_4, PUBLIC_6])) == called


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
async def test_public_address_passes(address):
    assert await validate_target("https://hooks.example/", STRICT, names(hooks_example=[address]))


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/", "http://[::1]:8080/", "http://localhost:9999/",
                                 "https://localhost/", "http://dev.localhost/"])  # fmt: skip
async def test_this_machine_may_be_called_in_development(url):
    resolve = names(localhost=["127.0.0.1", "::1"], dev_localhost=["127.0.0.1"])
    assert await validate_target(url, DEVELOPMENT, resolve) == url
    with pytest.raises(TargetRefused):
        await validate_target(url, STRICT, resolve)


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_development_opens_nothing_but_this_machine(address):
    with pytest.raises(TargetRefused):
        await validate_target("https://hooks.example/", DEVELOPMENT, names(hooks_example=[address]))


async def test_plain_http_to_the_public_is_refused_in_development_and_allowed_for_feeds():
    with pytest.raises(TargetRefused):
        await validate_target("http://good.example/", DEVELOPMENT, names())
    feeds = TargetRules(allow_plain=True)
    assert await validate_target("http://good.example/feed.xml", feeds, names()) == "http://good.example/feed.xml"
    with pytest.raises(TargetRefused):
        await validate_target("http://good.example/feed.xml", feeds, names(good_example=["127.0.0.1"]))


async def test_every_spelling_that_the_machine_would_resolve_to_itself_is_refused():
    """Even where the text were to pass, what the machine's resolver makes of it would not."""
    resolver = SystemResolver()
    try:
        for spelling in ("127.1", "2130706433", "0x7f.1", "0177.0.0.1", "localhost"):
            for address in await resolver(spelling):
                assert address in {"127.0.0.1", "::1"}
                with pytest.raises(TargetRefused):
                    await validate_target("https://hooks.example/", STRICT, names(hooks_example=[address]))
    finally:
        resolver.close()


def test_kind_of_refused_address_is_named():
    from ipaddress import ip_address

    assert blocked_kind(ip_address("169.254.169.254")) == "link-local"
    assert blocked_kind(ip_address(PUBLIC_4)) is None
