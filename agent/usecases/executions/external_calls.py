from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from agent.database.pools import Database
from agent.domain.pause import PAUSED
from agent.domain.run import CallState
from agent.store import call_locks, external_calls, outbox, runs
from agent.store.external_calls import ExternalCallAttempt, HandedOutCall
from agent.usecases import attempts
from agent.usecases.attempts import Claim
from agent.usecases.executions.claims import decided_action
from agent.usecases.executions.external import ClaimRefused, TokenOf, hash_of

CLAIM_WITHIN = 86_400.0
"""Seconds, without an approval; an approved call has `execute_within`."""

PAGE = 100


async def hand_out(db: Database, call_id: UUID, seconds: float) -> bool:
    """The card shows until when. False: no longer ready."""
    async with db.transaction() as tx:
        run_id = await call_locks.run_of(tx, call_id)
        run = await runs.lock(tx, run_id) if run_id else None
        call = await call_locks.lock(tx, call_id)
        if run is None or call is None or call.state is not CallState.READY:
            return False
        external_calls.hand_out(tx, call_id, seconds)
        outbox.enqueue(tx, attempts.card(call))
    return True


async def handed_out(db: Database, tools: Sequence[tuple[str, str]]) -> list[HandedOutCall]:
    return await db.read(external_calls.handed_out, tools, PAGE)


async def find_open_claim(db: Database, call_id: UUID, token_of: TokenOf) -> Claim | None:
    """The open attempt, if the token is its own and its action is the decided one. Raises ``ClaimRefused``."""
    async with db.transaction() as tx:
        call = await call_locks.lock(tx, call_id)
        found = await external_calls.find_open_attempt(tx, call_id)
        action = decided_action(call) if call else None
    if call is None or found is None or action is None:
        return None
    if hash_of(token_of(found.execution_id)) != found.claim_hash:
        return None
    if call.paused:
        raise ClaimRefused("paused", PAUSED)
    return Claim(
        found.execution_id, call.id, call.run_id, found.attempt, action, call.request_id, found.worker
    )


async def find_attempt(db: Database, call_id: UUID, token: str) -> ExternalCallAttempt | None:
    return await db.read(external_calls.find_attempt, call_id, hash_of(token))
