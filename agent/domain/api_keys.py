"""API keys of programs: what a key may do, and on whose behalf."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from signoff.values import Person


class Scope(StrEnum):
    """What a key may do. One that asks for actions can never decide about them."""

    REQUEST = "request"
    ON_BEHALF = "on_behalf"
    FACTS = "facts"
    DECIDE = "decide"
    READ = "read"
    ADMIN = "admin"
    EXECUTE = "execute"


@dataclass(frozen=True, slots=True)
class Principal:
    """A recognised key; ``owner`` asks and votes with it, ``agent`` is the name that its requests bear, if any."""

    key_id: UUID
    key: str
    scopes: frozenset[Scope]
    owner: Person | None
    agent: str | None

    @property
    def name(self) -> str:
        """How requests and the record name it."""
        return f"key:{self.key}"

    @property
    def sees_all(self) -> bool:
        """Whether every request and run of the workspace is open to it."""
        return self.may(Scope.READ) or self.may(Scope.ADMIN)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A key as it is listed; its secret is not kept. ``prefix`` is how it begins."""

    id: UUID
    name: str
    prefix: str
    scopes: frozenset[Scope]
    owner: Person | None
    agent: str | None
    per_minute: int
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
