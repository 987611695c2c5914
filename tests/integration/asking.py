from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
from sqlalchemy import text

from agent.database.pools import Database
from agent.domain.people import Standing
from agent.domain.request import Ballot, Place, Verdict
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor, ProposedCall, Turn
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import policy, requests, runs
from agent.usecases.calls import Claim
from agent.usecases.requests import NewRequest
from agent.usecases.runs import NewRun
from signoff.values import Action, Person
from tests.integration import alone
from tests.integration.on_record import put_terms_on_record

TEAM = "T0SIGNOFF"
REVIEWS = Destination(TEAM, "C0REVIEW")
ADA, GRACE, LINUS = (Person(TEAM, user) for user in ("U0ADA", "U0GRACE", "U0LINUS"))
REVIEWERS = "S0FINANCE"


def rule(**changes: Any) -> Rule:
    """A checkpoint on refunds that one member of the finance group decides, unless changed."""
    terms: dict[str, Any] = {
        "checkpoint_id": "refunds",
        "action_pattern": "process_refund",
        "risk": "medium",
        "approvers": (REVIEWERS,),
        "on_reject": "tell_model",
    }
    return Rule(**(terms | changes))


def reviewer(person: Person, *roles: str) -> Standing:
    """In good standing, by default a member of the reviewers' group."""
    return Standing(person, frozenset(roles or (REVIEWERS,)))


@dataclass(frozen=True)
class Asked:
    request_id: UUID
    call_id: UUID
    run_id: UUID
    nonce: str


async def start(
    db: Database, *, calls: int = 1, tool: str = "process_refund", **changes: Any
) -> tuple[UUID, list[UUID]]:
    """Return the ids of run and calls."""
    new = NewRun("refunds", "1", "refund order 7", "slack", ADA, "slack", TEAM, "C0AGENTS")
    started = await runs.start(db, replace(new, **changes))
    leased = await alone.lease(db, started.run_id, "worker-1")
    assert leased is not None
    proposed = tuple(ProposedCall(f"call_{n}", tool, json.dumps({"order_id": n})) for n in range(calls))
    await alone.record_turn(db, leased.lease, Turn("Ada asks for it.", proposed, 10, leased.heard))
    async with db.connection() as connection:
        return started.run_id, [call.id for call in await views.calls(connection, started.run_id)]


def question(run_id: UUID, call_id: UUID, terms: Rule, *, order: int = 0, **changes: Any) -> NewRequest:
    fields: dict[str, Any] = {
        "rule": terms,
        "action": Action("process_refund", "1", {"order_id": order}),
        "facts": {"price": 1500},
        "description": f"Refund 1500 for order {order}",
        "rationale": "Ada asks for it.",
        "context": {"task": "refund order 7"},
        "agent": "refunds",
        "agent_version": "1",
        "requester": ADA,
        "requester_asserted": "slack",
        "destination": REVIEWS,
        "client_id": f"{call_id}:1",
        "run_id": run_id,
        "call_id": call_id,
    }
    return NewRequest(**(fields | changes))


def programs_question(terms: Rule, **changes: Any) -> NewRequest:
    """As a program asks it, which executes the action itself."""
    theirs = {"source": "api", "principal": "key:ci", "client_id": "r-1", "executor": CallExecutor.PROGRAM}
    nobodys = question(UUID(int=0), UUID(int=0), terms)
    return replace(nobodys, **{**theirs, "run_id": None, "call_id": None, **changes})


async def ask(
    db: Database, terms: Rule | None = None, *, parent: UUID | None = None, **changes: Any
) -> Asked:
    run_id, calls = await start(db, parent_run_id=parent)
    judged = {"policy_epoch": await policy.epoch_in_force(db), **changes}
    opened = await requests.open(db, question(run_id, calls[0], terms or rule(), **judged))
    return await asked_as(db, opened.request_id, calls[0], run_id)


async def asked_as(db: Database, request_id: UUID, call_id: UUID, run_id: UUID) -> Asked:
    """With the place of its card."""
    async with db.connection() as connection:
        view = await views.request_view(connection, request_id)
    assert view is not None
    return Asked(request_id, call_id, run_id, view.place_nonce)


async def claim_approved(db: Database, asked: Asked, *, worker: str = "w", idempotent: bool = False) -> Claim:
    """Grace has approved the call."""
    await alone.vote(db, ballot(asked, reviewer(GRACE)))
    claim = await alone.claim(db, asked.call_id, worker=worker, idempotent=idempotent)
    assert claim is not None
    return claim


def ballot(
    asked: Asked,
    standing: Standing,
    verdict: str = "approve",
    others: Iterable[Standing] = (),
    **changes: Any,
) -> Ballot:
    """A click on the request's card in the review channel."""
    fields: dict[str, Any] = {
        "request_id": asked.request_id,
        "revision": 1,
        "verdict": Verdict(verdict),
        "voter": standing,
        "standings": {each.person: each for each in (*others, standing)},
        "path": "slack_button",
        "place": Place(asked.nonce, "channel", "C0REVIEW", "1700000000.000100"),
    }
    return Ballot(**(fields | changes))


async def exclude(db: Database, request_id: UUID | str, person: Person, why: str) -> None:
    await write(
        db,
        """UPDATE approval_request SET excluded = excluded || jsonb_build_object(
               'team', CAST(:team AS text), 'user', CAST(:user AS text), 'why', CAST(:why AS text)) WHERE id = :id""",
        id=request_id,
        team=person.team_id,
        user=person.user_id,
        why=why,
    )
    await put_terms_on_record(db)


async def column(db: Database, sql: str, **parameters: Any) -> list[Any]:
    async with db.connection() as connection:
        return list((await connection.execute(text(sql), parameters)).scalars())


async def rows(db: Database, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
    async with db.connection() as connection:
        return [tuple(row) for row in (await connection.execute(text(sql), parameters)).all()]


async def write(db: Database, sql: str, **parameters: Any) -> list[Any]:
    """Return the first column of the result."""
    async with db.transaction() as tx:
        result = await tx.execute(text(sql), parameters)
        return list(result.scalars()) if result.returns_rows else []


async def blocked(owner: psycopg.Connection[Any], count: int) -> None:
    """Wait until this many sessions wait for a lock."""
    deadline = time.monotonic() + 10
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    while owner.execute(waiting).fetchone() != (count,):
        assert time.monotonic() < deadline, f"never {count} sessions blocked"
        await asyncio.sleep(0.01)
