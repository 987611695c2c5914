"""Joint use cases with a single member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

from agent.database.pools import Database
from agent.domain.judgement import Judgement
from agent.domain.limits import Use
from agent.domain.request import Ballot
from agent.domain.run import RunLease, Turn
from agent.store import call_locks
from agent.usecases.calls import (
    AttemptReport,
    CallToClaim,
    Claim,
    ClaimCalls,
    ClaimTerms,
    Outcome,
    WriteReports,
)
from agent.usecases.requests import VoteOutcome, count_votes
from agent.usecases.runs import LeasedRun, LeaseRuns, MadeTurn, RecordTurns
from agent.usecases.waves import JointUseCase, Settled, Skipped

Member = TypeVar("Member")
Result = TypeVar("Result")


async def alone(use_case: JointUseCase[Member, Any, Result], member: Member) -> Result:
    """Return the result of the only member of a transaction, or raise it."""
    return only(await use_case.send([member], wait=True))


def only(results: Sequence[Settled[Result]]) -> Result:
    [result] = results
    if isinstance(result, Exception):
        raise result
    assert not isinstance(result, Skipped)
    return result


async def vote(db: Database, ballot: Ballot) -> VoteOutcome:
    return only(await count_votes(db, [ballot], wait=True))


async def claim(
    db: Database,
    call_id: UUID,
    *,
    worker: str,
    idempotent: bool,
    read_only: bool = False,
    uses: tuple[Use, ...] = (),
    policy_epoch: int = 0,
    judgement: Judgement | None = None,
    token: bytes | None = None,
) -> Claim | None:
    """``token``: the hash of that of the program ``worker``."""
    async with db.connection() as connection:
        call = await call_locks.find(connection, call_id)
    assert call is not None
    terms = ClaimTerms(
        worker,
        idempotent,
        read_only,
        uses=uses,
        policy_epoch=policy_epoch,
        judgement=judgement,
        claim_hash=token,
    )
    return await alone(ClaimCalls(db), CallToClaim(call_id, call.run_id, call.request_id, terms))


async def report(db: Database, claimed: Claim, outcome: Outcome) -> bool:
    return await alone(WriteReports(db), AttemptReport(claimed, outcome))


async def lease(db: Database, run_id: UUID, worker: str) -> LeasedRun | None:
    return await alone(LeaseRuns(db, worker), run_id)


async def record_turn(db: Database, lease: RunLease, turn: Turn) -> None:
    await alone(RecordTurns(db), MadeTurn(lease, turn))
