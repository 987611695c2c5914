from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from signoff.values import Person


class Scope(StrEnum):
    """What a key may do. A key that asks can never decide."""

    REQUEST = "request"
    ON_BEHALF = "on_behalf"
    FACTS = "facts"
    DECIDE = "decide"
    READ = "read"
    ADMIN = "admin"
    EXECUTE = "execute"
    SESSIONS = "sessions"


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated key. ``owner`` asks and votes with it; ``agent``: fixed for its requests."""

    key_id: UUID
    key: str
    scopes: frozenset[Scope]
    owner: Person | None
    agent: str | None

    @property
    def name(self) -> str:
        return f"key:{self.key}"

    @property
    def sees_all(self) -> bool:
        return self.may(Scope.READ) or self.may(Scope.ADMIN)

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes


@dataclass(frozen=True, slots=True)
class KeyLine:
    """``prefix`` is how the secret, which is not stored, begins."""

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
