"""The cost of what a program asks, claims and reports: statements, without BEGIN and COMMIT."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from agent.domain.api_keys import Principal
from agent.domain.checkpoints import load
from agent.domain.facts import Facts, FactsSource
from agent.domain.people import Standing
from agent.domain.request import Ballot, ExecutionStatus, Verdict
from agent.domain.request_view import RequestView
from agent.runtime import external_calls
from agent.runtime.judging import program_claims
from agent.runtime.judging.programs import LetThrough, ProgramQuestion, ask
from agent.store import views
from agent.usecases import calls, requests
from agent.usecases.calls import Outcome
from agent.usecases.calls.program_claims import ProgramClaim, hand_over_together, random_token
from signoff.values import Action
from tests.integration import alone
from tests.integration.asking import write
from tests.integration.runtime.conftest import REVIEWER, Stage
from tests.statement_counter import counting

MOST = {
    "ask, opened": 14,
    "ask again": 2,
    "ask, let through": 9,
    "ask, let through within a limit": 12,
    "read the approval": 1,
    "claim": 6,
    "repeat the claim": 3,
    "report": 7,
    "repeat the report": 3,
    "void and ask": 19,
    "lost": 9,
    "settle": 9,
    "lapse": 5,
    "withdraw": 8,
}
"""Locks, reads and writes. What a route reads to find the request, and to show it, comes on top."""

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["channel"]

[[checkpoint]]
checkpoint_id = "refunds"
action_pattern = "refund"

[[checkpoint]]
checkpoint_id = "reads"
action_pattern = "read"
when = "args.secret"

[[checkpoint]]
checkpoint_id = "payments"
action_pattern = "pay"
when = "args.secret"

[[limit]]
name = "payments"
action_pattern = "pay"
of = "args.amount"
per = "all"
within = "24h"
max = 100
"""
STANDING = Standing(REVIEWER, frozenset({"channel"}))


@pytest.fixture
async def on(stage: Callable[..., Awaitable[Stage]]) -> Stage:
    return await stage(policy=load(POLICY, filename="checkpoints.toml"))


def question(key: Principal, tool: str, **arguments: Any) -> ProgramQuestion:
    action = Action(tool, "external", {"secret": False, **arguments})
    return ProgramQuestion(
        principal=key,
        client_id=f"{tool} {len(arguments)}",
        content=hashlib.sha256(action.canonical).digest(),
        action=action,
        facts=Facts({"price": 5}, source=FactsSource.PROGRAM),
        agent="shop",
        requester=None,
        on_behalf=False,
        quote=None,
        words=None,
        rationale=None,
        context={},
        session=None,
    )


async def view_of(on: Stage, request_id: UUID) -> RequestView:
    async with on.db.connection() as connection:
        found = await views.request_view(connection, request_id)
    assert found is not None
    return found


async def approved(on: Stage, asked: ProgramQuestion) -> UUID:
    opened = await ask(on.services, asked)
    assert not isinstance(opened, LetThrough)
    ballot = Ballot(opened.request_id, 1, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
    await alone.vote(on.db, ballot)
    return opened.request_id


async def claimed(
    on: Stage,
    key: Principal,
    request_id: UUID,
    facts: dict[str, Any] | None = None,
    token: str | None = None,
) -> Any:
    view = await view_of(on, request_id)
    sent = None if facts is None else Facts(facts, source=FactsSource.PROGRAM)
    token_of = random_token if token is None else lambda _: token
    with counting() as counted:
        got = await program_claims.claim(
            on.services, view, key, token_of, digest=None, facts=sent, lease_seconds=60
        )
    return got, len(counted.statements)


async def test_each_step_of_a_program_costs_a_known_number_of_statements(on: Stage, key: Principal) -> None:
    """As many as the table says: who makes a step dearer changes the table."""
    await ask(on.services, question(key, "refund"))  # connections are made once
    seen: dict[str, int] = {}
    for name, asked in (
        ("ask, opened", question(key, "refund", order=7)),
        ("ask again", question(key, "refund", order=7)),
        ("ask, let through", question(key, "read", amount=1)),
        ("ask, let through within a limit", question(key, "pay", amount=1)),
    ):
        with counting() as counted:
            await ask(on.services, asked)
        seen[name] = len(counted.statements)
    request_id = await approved(on, question(key, "refund", order=7))
    with counting() as counted:
        await hand_over_together(on.db, [request_id], wait=True)
    seen["read the approval"] = len(counted.statements)
    got, seen["claim"] = await claimed(on, key, request_id, token="one")
    assert isinstance(got, ProgramClaim)
    _, seen["repeat the claim"] = await claimed(on, key, request_id, token="one")
    for name in ("report", "repeat the report"):
        with counting() as counted:
            done = Outcome(ExecutionStatus.SUCCEEDED, "5")
            await external_calls.report(on.services, got.call_id, key, got.token, done)
        seen[name] = len(counted.statements)
    again = await approved(on, question(key, "refund", order=8, more=1))
    anew, seen["void and ask"] = await claimed(on, key, again, {"price": 6})
    lost, _ = await claimed(on, key, await approved(on, question(key, "refund", a=1, b=1, c=1)))
    await write(on.db, "UPDATE execution SET lease_until = clock_timestamp() WHERE status = 'claimed'")
    with counting() as counted:
        assert await calls.rescue(on.db) == 1
    seen["lost"] = len(counted.statements)
    with counting() as counted:
        await requests.settle(on.db, lost.execution_id, STANDING, "retry")
    seen["settle"] = len(counted.statements)
    await write(on.db, "UPDATE tool_call SET lapse_at = clock_timestamp() WHERE state = 'ready'")
    with counting() as counted:
        assert await requests.lapse_due(on.db) == 1
    seen["lapse"] = len(counted.statements)
    with counting() as counted:
        assert await requests.withdraw(on.db, anew.request_id, None, "not needed", principal=key.name)
    seen["withdraw"] = len(counted.statements)
    assert seen == MOST
