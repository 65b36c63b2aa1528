import tracemalloc
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollhouse.http.request import address_reader, client_address

PROXIES = [ip_network(text) for text in ("10.0.0.0/8", "2001:db8:ffff::/48")]


def test_header_from_a_stranger_is_not_believed():
    assert client_address("198.51.100.1", "203.0.113.9", PROXIES) == "198.51.100.1"
    assert client_address("198.51.100.1", "203.0.113.9", []) == "198.51.100.1"


def test_trusted_proxy_is_believed():
    assert client_address("10.0.0.1", "203.0.113.9", PROXIES) == "203.0.113.9"


def test_only_what_trusted_proxies_added_is_believed():
    assert client_address("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.9.9.9", PROXIES) == "203.0.113.9"


def test_chain_of_trusted_proxies_alone_ends_at_the_first():
    assert client_address("10.0.0.1", "10.0.0.3,10.0.0.2", PROXIES) == "10.0.0.3"


@pytest.mark.parametrize("junk", ["evil", "", " ", ",", "999.1.1.1", "1.2.3", "203.0.113.9:443", "<script>", "::g"])
def test_hop_that_is_no_address_ends_the_walk(junk):
    assert client_address("10.0.0.1", f"203.0.113.9, {junk}", PROXIES) == "10.0.0.1"
    assert client_address("10.0.0.1", f"{junk}, 10.0.0.2", PROXIES) == "10.0.0.2"


def test_mapped_address_is_the_ipv4_address():
    assert client_address("::ffff:198.51.100.1", "", []) == "198.51.100.1"
    assert client_address("::ffff:10.0.0.1", "::ffff:203.0.113.9", PROXIES) == "203.0.113.9"


def test_ipv6_household_is_one_caller():
    addresses = {client_address(f"2001:db8:0:1::{host:x}", "", []) for host in (1, 2, 0xFFFF)}
    assert addresses == {"2001:db8:0:1::/64"}
    assert client_address("2001:db8:0:2::1", "", []) == "2001:db8:0:2::/64"
    assert client_address("2001:db8:ffff::1", "2001:db8:0:1::7", PROXIES) == "2001:db8:0:1::/64"


def test_zone_is_no_part_of_the_address():
    assert client_address("fe80::1%eth0", "", []) == "fe80::/64"


@pytest.mark.parametrize("peer", ["", "unix:", "/tmp/socket"])  # noqa: S108 - a name, not a file
def test_peer_without_an_address_is_still_somebody(peer):
    assert client_address(peer, "203.0.113.9", PROXIES)


def test_long_headers_are_not_kept_in_memory():
    read = address_reader(PROXIES)
    tracemalloc.start()
    for number in range(400):
        assert read("10.0.0.1", "a" * 12_000 + f"{number},203.0.113.9") == "203.0.113.9"
        assert read("10.0.0.1", "b" * 12_000 + f"{number}") == "10.0.0.1"
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 1_000_000


def test_header_is_not_read_where_no_proxy_is_trusted():
    read = address_reader([])
    assert read("198.51.100.1", "203.0.113.9") == "198.51.100.1"


@given(st.text(), st.sampled_from(["10.0.0.1", "198.51.100.1", "::1"]))
def test_no_header_can_break_it(header, peer):
    assert client_address(peer, header, PROXIES)


@given(st.lists(st.ip_addresses().map(str), max_size=5), st.ip_addresses(v=4).map(str))
def test_what_a_caller_writes_in_front_changes_nothing(forged, seen):
    proxy = ip_network("10.0.0.1/32")
    honest = client_address("10.0.0.1", seen, [proxy])
    assert client_address("10.0.0.1", ", ".join([*forged, seen]), [proxy]) == honest or seen == "10.0.0.1"
