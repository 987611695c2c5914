"""Which addresses a webhook may have."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from agent.domain.webhook_urls import check_address, check_url, networks


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "https://example.com:8443/hook?tenant=7",
        "https://10.1.2.3/hook",
    ],
)
def test_addresses_that_are_taken(url: str) -> None:
    """https, also in private networks."""
    check_url(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/hook", "must be https"),
        ("http://10.1.2.3/hook", "must be https"),
        ("ftp://example.com/", "must be an address"),
        ("//example.com/", "must be an address"),
        ("https:///hook", "must be an address"),
        ("https://example.com:99999/", "is not an address"),
        ("https://user:word@example.com/", "user or a password"),
        ("https://example.com/#part", "fragment"),
        ("https://exämple.com/", "ASCII"),
        ("https://example.com/a b", "ASCII"),
        ("https://example.com/\r\nHost: evil", "ASCII"),
        ("http://127.0.0.1/hook", "must be https"),
        ("https://localhost:8000/hook", "this machine"),
        ("https://127.8.9.1/hook", "this machine"),
        ("https://[::1]:9000/", "this machine"),
        ("https://[::ffff:127.0.0.1]/", "this machine"),
        ("https://169.254.169.254/latest/meta-data", "cloud metadata"),
        ("https://169.254.1.1/", "no webhook may reach"),
        ("https://[fe80::1]/", "no webhook may reach"),
        ("https://[::ffff:169.254.169.254]/", "cloud metadata"),
        ("https://[64:ff9b::a9fe:a9fe]/", "cloud metadata"),
        ("https://[2002:a9fe:a9fe::1]/", "no webhook may reach"),
        ("https://[2001:0:1::a9fe:a9fe]/", "no webhook may reach"),
        ("https://0.0.0.0/", "no webhook may reach"),
        ("https://224.0.0.1/", "no webhook may reach"),
        ("https://[fd00:ec2::254]/", "cloud metadata"),
        ("https://[fd00:ec2::23]/", "cloud metadata"),
        ("https://[fd20:ce::254]/", "cloud metadata"),
        ("https://[fd00:42::42]/", "cloud metadata"),
        ("https://[fd00:c1::a9fe:a9fe]/", "cloud metadata"),
        ("https://192.0.0.192/", "cloud metadata"),
        ("https://168.63.129.16/", "cloud metadata"),
        ("https://100.100.100.200/", "cloud metadata"),
        (f"https://example.com/{'x' * 2000}", "must be an address"),
    ],
)
def test_addresses_that_are_refused(url: str, why: str) -> None:
    """Each is refused with its own reason."""
    with pytest.raises(ValueError, match=why):
        check_url(url)


def test_a_name_that_leads_inside_is_refused_when_it_is_looked_up() -> None:
    """What a name resolves to is judged as a written address is; plain http reaches only what is listed."""
    with pytest.raises(ValueError, match="this machine"):
        check_address(ip_address("127.0.0.1"), encrypted=True)
    check_address(ip_address("10.0.0.7"), encrypted=True)
    with pytest.raises(ValueError, match="is not https"):
        check_address(ip_address("10.0.0.7"), encrypted=False)
    with pytest.raises(ValueError, match="no webhook may reach"):
        check_address(ip_address("169.254.10.1"), encrypted=True)


def test_an_operator_can_allow_networks() -> None:
    """Listed networks may be reached by http, and may be link-local or this machine; others stay barred, and cloud
    metadata is barred also where it is listed.
    """
    allowed = networks("10.0.0.0/8, 169.254.10.0/24, 127.0.0.0/8")
    check_url("http://localhost:8000/hook", allowed)
    check_address(ip_address("127.0.0.1"), allowed, encrypted=False)
    check_url("http://hooks.internal/x", allowed)
    check_address(ip_address("10.0.0.7"), allowed, encrypted=False)
    check_address(ip_address("169.254.10.1"), allowed, encrypted=True)
    with pytest.raises(ValueError, match="no webhook may reach"):
        check_address(ip_address("169.254.11.1"), allowed, encrypted=True)
    with pytest.raises(ValueError, match="cloud metadata"):
        check_address(ip_address("169.254.169.254"), networks("169.254.0.0/16"), encrypted=True)
    with pytest.raises(ValueError, match="does not appear to be"):
        networks("everything")
