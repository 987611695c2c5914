"""The cost of a vote, from the click to the tool: statements, round trips and commits, counted on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.database.pools import Database
from agent.domain.people import Standing
from agent.domain.policy import Policy
from agent.domain.request import Ballot, Verdict
from agent.domain.rules import Denial
from agent.domain.run import CallView
from agent.runtime.agents import Agent
from agent.runtime.immediate_claims import claim_approved, process_votes
from agent.runtime.tool import tool
from agent.runtime.work_queue import WorkQueue
from agent.usecases.requests import Votes
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration.runtime.conftest import REVIEWER, Stage
from tests.wire_counter import WireCounter

DENIES_ANOTHER = Policy(denials=(Denial(checkpoint_id="never", action_pattern="drop_*"),))
STANDING = Standing(REVIEWER, frozenset({"channel"}))


@pytest.fixture
async def counter(database_url: str, tmp_path: Path) -> AsyncIterator[WireCounter]:
    """A way to the test's database on which statements and round trips are counted."""
    async with WireCounter(database_url, tmp_path).running() as opened:
        yield opened


def cleaner(counter: WireCounter, seen: list[tuple[int, int, int]]) -> Agent:
    """Its tool notes what had been sent when it began: statements, round trips, commits."""

    @tool
    def delete(what: str) -> str:
        """Deletes it."""
        seen.append((len(counter.work), counter.round_trips, counter.commits))
        return f"deleted {what}"

    return Agent("cleaner", "You keep tables tidy.", tools=(delete,))


async def asked(on: Stage, what: str) -> CallView:
    on.model.script(ScriptedTurn(calls=(ScriptedCall("delete", {"what": what}),)))
    (call,) = await on.calls(await on.go("cleaner", f"delete {what}"))
    return call


async def click(votes: Votes, call: CallView) -> None:
    """Of somebody whose rights are known."""
    assert call.request_id is not None
    nothing = Standing(REVIEWER)
    known = {REVIEWER: STANDING}
    await votes.cast(
        Ballot(call.request_id, 1, Verdict.APPROVE, nothing, {}, "test", rights=lambda electorate: known)
    )


async def no_calls(_: object) -> None: ...


@pytest.mark.parametrize("policy", [Policy(), DENIES_ANOTHER])
async def test_a_click_waits_twice_for_the_database_before_its_tool_begins(
    stage: Callable[..., Awaitable[Stage]], counter: WireCounter, policy: Policy
) -> None:
    """One round trip of locks, one of writes with COMMIT; alone, the tool begins behind a single flush.

    A policy that denies calls of another tool costs nothing.
    """
    seen: list[tuple[int, int, int]] = []
    on = await stage(cleaner(counter, seen), policy=policy)
    call = await asked(on, "users")
    async with Database(counter.url) as db:
        await db.open()
        calls = WorkQueue(no_calls, 1, lambda: None)
        votes = process_votes(replace(on.services, db=db), calls)
        counter.reset()
        await click(votes, call)
        await calls.stop(10)
    assert seen == [(9, 2, 1)]


async def test_eight_votes_cost_little_more_than_one(
    stage: Callable[..., Awaitable[Stage]], counter: WireCounter
) -> None:
    """Eight clicks are one transaction of as many statements as one of them, and eight tools begin behind it."""
    seen: list[tuple[int, int, int]] = []
    on = await stage(cleaner(counter, seen))
    waiting = [await asked(on, f"table {number}") for number in range(8)]
    async with Database(counter.url) as db:
        await db.open()
        calls = WorkQueue(no_calls, 8, lambda: None)
        votes = process_votes(replace(on.services, db=db), calls)
        ballots = [
            Ballot(call.request_id, 1, Verdict.APPROVE, STANDING, {REVIEWER: STANDING}, "test")
            for call in waiting
            if call.request_id is not None
        ]
        counter.reset()
        await asyncio.gather(*map(votes.cast, ballots))
        await calls.stop(10)
    assert len(seen) == 8
    assert seen[0] == (9, 2, 1)


async def test_a_call_approved_in_another_process_waits_twice_for_the_database(
    stage: Callable[..., Awaitable[Stage]], counter: WireCounter
) -> None:
    """One round trip locks and reads all of it, one writes the claim with COMMIT: the worker does not look first."""
    seen: list[tuple[int, int, int]] = []
    on = await stage(cleaner(counter, seen))
    call = await asked(on, "users")
    await click(process_votes(on.services), call)
    assert call.request_id is not None
    async with Database(counter.url) as db:
        await db.open()
        counter.reset()
        assert await claim_approved(replace(on.services, db=db), call.id, call.run_id, call.request_id)
    assert seen == [(7, 2, 1)]
