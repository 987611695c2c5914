"""Which URLs a webhook may have. Guards against SSRF.

Cloud machines get credentials from a link-local address; databases and sidecars listen on loopback. After name
resolution both are refused unless an operator allows them; credential addresses always. Private networks, which have
many receivers, are allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000

# Clouds' metadata services.
_METADATA = (
    ip_network("169.254.169.254/32"),
    ip_network("169.254.170.0/24"),  # AWS: credentials of containers
    ip_network("fd00:ec2::/32"),  # AWS
    ip_network("fd20:ce::254/128"),  # Google
    ip_network("168.63.129.16/32"),  # Azure
    ip_network("192.0.0.192/32"),  # Oracle
    ip_network("fd00:c1::a9fe:a9fe/128"),  # Oracle
    ip_network("fd00:42::42/128"),  # Scaleway
    ip_network("100.100.100.200/32"),  # Alibaba
)


def check_url(url: str, allowed: Sequence[Network] = ()) -> None:
    """Raises ValueError, with a phrase, whatever the name resolves to."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not an address") from None
    if parts.scheme not in ("https", "http") or not host or len(url) > MAX_URL:
        raise ValueError('must be an address such as "https://example.com/hook"')
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("must be written in printable ASCII, without spaces")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not contain a user or a password; webhooks are signed instead")
    if parts.fragment:
        raise ValueError('must not have a fragment ("#…"), which is never sent')
    literal = IPv4Address("127.0.0.1") if host == "localhost" else _literal(host)
    if parts.scheme == "http" and not allowed:
        raise ValueError("must be https (http is for networks in SIGNOFF_WEBHOOK_NETWORKS)")
    if literal is not None:
        check_address(literal, allowed, encrypted=parts.scheme == "https")


def check_address(address: Address, allowed: Sequence[Network] = (), *, encrypted: bool) -> None:
    """Raises ValueError, with a phrase, for a resolved address."""
    plain = _unwrapped(address)
    if any(plain in network for network in _METADATA):
        raise ValueError(f"leads to {plain}, a cloud metadata address")
    if any(plain in network for network in allowed):
        return
    if plain.is_loopback:
        raise ValueError(f"leads to {plain}, this machine, which is not in SIGNOFF_WEBHOOK_NETWORKS")
    if (
        plain.is_link_local
        or plain.is_unspecified
        or plain.is_multicast
        or plain.is_reserved
        or _tunnels(plain)
    ):
        raise ValueError(f"leads to {plain}, which no webhook may reach")
    if not encrypted:
        raise ValueError(f"leads to {plain}, which is not in SIGNOFF_WEBHOOK_NETWORKS, and is not https")


def networks(text: str) -> tuple[Network, ...]:
    """Parse ``10.0.0.0/8, fd12::/16``. Raises ValueError."""
    return tuple(ip_network(word) for word in text.replace(",", " ").split())


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _tunnels(address: Address) -> bool:
    """6to4 or Teredo (RFC 3056, RFC 4380): obsolete tunnels to an unchecked IPv4 address."""
    return isinstance(address, IPv6Address) and (address.sixtofour or address.teredo) is not None


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one (RFC 4291, RFC 6052)."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in ip_network("64:ff9b::/96"):
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address
