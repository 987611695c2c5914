"""The `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header-07)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent.database.pools import Database
from agent.store import idempotency

PATIENCE = 120.0
"""Seconds until an unanswered call (its process died) may be repeated."""

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """The HTTP response that every repetition with the same `Idempotency-Key` gets."""

    status: int
    content: object
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reservation:
    """The right of one HTTP call to answer for its `Idempotency-Key`, with a digest of what it sent."""

    principal: str
    key: str
    fingerprint: bytes


class KeyReused(Exception):
    """The key was used for another call."""


class CallInProgress(Exception):
    """The same call is in progress."""


async def reserve(db: Database, principal: str, key: str, fingerprint: bytes) -> Reservation | StoredResponse:
    """Raises ``KeyReused`` and ``CallInProgress``."""
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
    """Store the response for repetitions of the same HTTP call; a response already stored stays."""
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
    """The same key may repeat a failed call."""
    async with db.transaction() as tx:
        idempotency.release(tx, begun.principal, begun.key, begun.fingerprint)


async def delete_old(db: Database) -> int:
    """Delete stored responses older than a day, at most 1,000 at once; return how many."""
    async with db.transaction() as tx:
        return await idempotency.delete_old(tx, _AT_ONCE)
