"""Which addresses no stranger may make this server call: every special network, by name.

The list is written out because `ipaddress.is_global` passes multicast, NAT64, 6to4 and more on some Pythons. Sources:
the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its successors), and the clouds' own documents.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))

_IPV6_IN_USE = IPv6Network("2000::/3")

_REFUSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("unspecified", ("0.0.0.0/8", "::/128")),
    ("loopback", ("127.0.0.0/8", "::1/128")),
    ("private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")),
    ("shared by a carrier's customers", ("100.64.0.0/10",)),
    ("link-local", ("169.254.0.0/16", "fe80::/10")),
    # Azure's, the one metadata service that answers at a public address.
    ("a cloud's metadata service", ("168.63.129.16/32",)),
    ("set aside for protocols", ("192.0.0.0/24", "192.52.193.0/24", "2001::/23", "5f00::/16")),
    ("documentation", ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20")),
    ("a name server's sink", ("192.31.196.0/24", "192.175.48.0/24", "2620:4f:8000::/48")),
    ("benchmarking", ("198.18.0.0/15",)),
    ("a 6to4 relay", ("192.88.99.0/24",)),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    ("reserved", ("240.0.0.0/4",)),
    # All that carry an IPv4 address inside: which one is the network's affair, not ours to guess.
    ("an IPv4 address in disguise", ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "2002::/16")),
    ("an IPv4 address behind NAT64", ("64:ff9b::/96", "64:ff9b:1::/48")),
    ("discarded", ("100::/64", "100:0:0:1::/64")),
    ("site-local", ("fec0::/10",)),
    ("given back", ("3ffe::/16",)),
)

_NETWORKS: tuple[tuple[IPv4Network | IPv6Network, str], ...] = tuple(
    (ip_network(text), kind) for kind, texts in _REFUSED for text in texts
)


def is_loopback(address: Address) -> bool:
    """Whether it is this machine calling itself, spelled plainly: not mapped, not translated."""
    return any(address in network for network in _LOOPBACK)


def refusal(address: Address) -> str | None:
    """What kind of address it is when it is none of the public internet's, else None."""
    for network, kind in _NETWORKS:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and (address.scope_id or address not in _IPV6_IN_USE):
        return "outside the addresses in use"
    return None
