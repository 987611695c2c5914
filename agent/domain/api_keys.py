"""API keys: their scopes, who acts through one, and the terms that are on record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from agent.domain.audit import moment, terms_digest
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
class KeyTerms:
    """What a key may do, for whom, and how it is known. Its events have the digest, as `terms`."""

    scopes: frozenset[Scope]
    owner: Person | None
    agent: str | None
    expires_at: datetime | None
    hash: bytes
    old_hash: bytes | None
    old_until: datetime | None

    @property
    def digest(self) -> str:
        """SHA-256 in hex."""
        content = (
            sorted(self.scopes),
            str(self.owner) if self.owner else None,
            self.agent,
            moment(self.expires_at) if self.expires_at else None,
            self.hash.hex(),
            self.old_hash.hex() if self.old_hash else None,
            moment(self.old_until) if self.old_until else None,
        )
        return terms_digest(content)


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
