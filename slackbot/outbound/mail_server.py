"""The address of the mail server, and the sender's."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit


@dataclass(frozen=True, slots=True)
class MailServer:
    """An address of a mail server, with the login if it needs one; its repr leaves the password out."""

    host: str
    port: int
    encrypted: bool  # from the first byte (smtps); else STARTTLS
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def read(cls, url: str) -> MailServer:
        """Read `SIGNOFF_SMTP_URL`. Raises ValueError with a phrase."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ValueError("is not an address") from None
        if parts.scheme not in ("smtp", "smtps") or not host or parts.path.strip("/") or parts.query:
            raise ValueError("must be like smtp://mail.example.com:587 or smtps://mail.example.com")
        if (parts.username is None) != (parts.password is None):
            raise ValueError("needs both a user and a password, or neither")
        encrypted = parts.scheme == "smtps"
        user, password = (unquote(part) if part else None for part in (parts.username, parts.password))
        return cls(host, port or (465 if encrypted else 587), encrypted, user, password)

    @property
    def start_tls(self) -> bool | None:
        """A password is sent over TLS only, except to this machine; ``None``: TLS if offered."""
        if self.encrypted:
            return False
        return True if self.user is not None and not _is_local(self.host) else None


def sender_address(text: str) -> str:
    """`SIGNOFF_SMTP_FROM` as a header value. Raises ValueError with a phrase."""
    name, address = parseaddr(text)
    if "@" not in address or any(character in text for character in "\r\n"):
        raise ValueError('must be like "Signoff <signoff@example.com>"')
    try:
        return str(Address(name, addr_spec=address))
    except (MessageError, ValueError):
        raise ValueError('must be like "Signoff <signoff@example.com>"') from None


def _is_local(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
