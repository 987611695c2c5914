"""Use cases on `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07): begin a call, keep or forget it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.database.pools import Database
from agent.store import idempotency

PATIENCE = 120.0
"""Seconds after which a call that was begun and never answered (its process died) may be made again."""

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer that was given before."""

    status: int
    content: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A call that is ours to make."""

    principal: str
    key: str
    fingerprint: bytes


class KeyReused(Exception):
    """The key belongs to another call."""


class CallInProgress(Exception):
    """The same call is being made at this moment."""


async def reserve(db: Database, principal: str, key: str, fingerprint: bytes) -> Reservation | StoredResponse:
    """Whether the call of this ``fingerprint`` is to be made now. Raises ``KeyReused`` and ``CallInProgress``."""
    async with db.transaction() as tx:
        if await idempotency.reserve(tx, principal, key, fingerprint, PATIENCE):
            return Reservation(principal, key, fingerprint)
        found = await idempotency.find(tx, principal, key)
    if found is not None and found.fingerprint != fingerprint:
        raise KeyReused
    if found is None or found.status is None:
        raise CallInProgress
    return StoredResponse(found.status, found.content, found.headers or {})


async def store_response(db: Database, begun: Reservation, response: StoredResponse) -> None:
    """Keep what the call was answered."""
    async with db.transaction() as tx:
        idempotency.store_response(
            tx,
            begun.principal,
            begun.key,
            begun.fingerprint,
            response.status,
            response.content,
            response.headers,
        )


async def release(db: Database, begun: Reservation) -> None:
    """The call came to nothing and may be made again with the same key."""
    async with db.transaction() as tx:
        idempotency.release(tx, begun.principal, begun.key, begun.fingerprint)


async def delete_old(db: Database) -> int:
    """Forget answers that are more than a day old. Returns how many."""
    async with db.transaction() as tx:
        return await idempotency.delete_old(tx, _AT_ONCE)
