"""The database's address, and the settings that each session gets from it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from agent.database.errors import DatabaseUnusable

SCHEMA = "signoff"
APP_ROLE = "signoff_app"
OLDEST_SERVER = 15
"""Views check the reader's rights by `security_invoker`."""
ENCODING = "UTF8"
"""Others cannot store every text."""

# Notice a vanished peer within ten seconds. The address may override this.
_KEEPALIVE = {
    "connect_timeout": "5",
    "keepalives_idle": "4",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "8000",
}


@dataclass(frozen=True, slots=True)
class Address:
    """The text form hides the password."""

    parameters: Mapping[str, str] = field(repr=False)
    schema: str = SCHEMA
    role: str | None = None

    @classmethod
    def read(cls, url: str, schema: str = SCHEMA, role: str | None = None) -> Self:
        """Accepts `postgresql://…` with libpq's parameters. Raises DatabaseUnusable, never with the password."""
        plain, known = re.subn(r"\Apostgres(?:ql)?(?:\+psycopg(?:_async)?)?://", "postgresql://", url.strip())
        if not known:
            raise DatabaseUnusable("the database address has to begin with postgresql://")
        try:
            given = {key: str(value) for key, value in conninfo_to_dict(plain).items() if value is not None}
        except ProgrammingError:
            raise DatabaseUnusable("the database address is not a valid PostgreSQL URL") from None
        return cls({key: value for key, value in given.items() if value}, schema, role)

    def conninfo(self, application_name: str = "signoff", **settings: str | int) -> str:
        """``settings`` are the server's."""
        begin: dict[str, str | int] = {"search_path": f"{quoted(self.schema)},pg_temp", "TimeZone": "UTC"}
        if self.role is not None:
            begin["role"] = self.role
        begin |= settings
        options = " ".join(f"-c {key}={_escaped(str(value))}" for key, value in begin.items())
        merged = {
            **_KEEPALIVE,
            "application_name": application_name,
            **self.parameters,
            "options": f"{self.parameters.get('options', '')} {options}".strip(),
        }
        return make_conninfo(**merged)

    def refusal(self, server_version: int, encoding: str | None) -> DatabaseUnusable | None:
        """The error for an unusable version (libpq: 15.4 is 150004) or encoding."""
        if server_version < OLDEST_SERVER * 10_000:
            major = server_version // 10_000
            return DatabaseUnusable(
                f"the database {self} is PostgreSQL {major}; Signoff needs {OLDEST_SERVER} or newer",
                "upgrade the server, or set DATABASE_URL to another one",
            )
        if encoding != ENCODING:
            return DatabaseUnusable(
                f"the database {self} has the encoding {encoding}, and Signoff needs {ENCODING}",
                f"make one with: CREATE DATABASE … TEMPLATE template0 ENCODING '{ENCODING}'",
            )
        return None

    @property
    def user(self) -> str | None:
        return self.parameters.get("user")

    def __str__(self) -> str:
        host = self.parameters.get("host") or self.parameters.get("hostaddr") or "localhost"
        port = self.parameters.get("port", "5432")
        name = self.parameters.get("dbname") or self.user or ""
        return f"{self.user + '@' if self.user else ''}{host}:{port}/{name}"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier, with quotes inside it doubled."""
    return '"' + name.replace('"', '""') + '"'


def _escaped(value: str) -> str:
    """Libpq splits `options` at unescaped blanks."""
    return re.sub(r"([\\\s])", r"\\\1", value)
