"""Several questions of a program at once: one message, one wait, and a decision for each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from signoff.client import Approval, ProposedAction, Review
from signoff.client.operations import MOST_AT_ONCE
from signoff.errors import ApiError, CollaborationError
from tests.integration.asking import column
from tests.integration.web.conftest import Program, Street, until
from tests.integration.web.test_client import Caller, caller, grace, key, kind

__all__ = ["caller", "grace", "key", "kind"]


def notes(count: int, **more: Any) -> list[ProposedAction]:
    return [ProposedAction("post_note", {"count": n}, key=f"n-{n}", **more) for n in range(1, count + 1)]


async def ids(site: Street, count: int) -> list[str]:
    async def look() -> list[Any]:
        found = await column(site.db, "SELECT id::text FROM approval_request ORDER BY created_at, id")
        return found if len(found) >= count else []

    return list(await until(look))


async def test_one_wait_for_several(site: Street, caller: Caller, grace: Program) -> None:
    """Each question gets its own decision, in the order in which they were asked; a rejection hides no approval."""
    asking = asyncio.create_task(caller.ask_many(notes(5), timeout=30))
    asked = await ids(site, 5)
    for n in (4, 2, 0, 3):
        await grace.decide(asked[n])
    await grace.decide(asked[1], "rejected", reason="Not this one")
    results = await asking
    assert [type(each) for each in results] == [
        Approval,
        CollaborationError,
        Approval,
        Approval,
        Approval,
    ]
    assert "Not this one" in str(results[1])
    assert [each.arguments["count"] for each in results if isinstance(each, Approval)] == [1, 3, 4, 5]


async def test_several_share_a_message(site: Street, caller: Caller) -> None:
    """From four on, the questions of one batch and checkpoint are gathered; fewer, or those without one, are not."""
    await caller.submit_many(notes(5))
    (gathered,) = await column(site.db, "SELECT DISTINCT digest FROM card_place")
    assert gathered.startswith("batch:key:agent/")
    await caller.submit_many([ProposedAction("post_note", {"count": 9}, key="alone")])
    folded = await column(site.db, "SELECT count(*) FROM card_place WHERE folded")
    assert folded == [5]


async def test_another_key_joins_no_batch(site: Street) -> None:
    """Two keys that name the same batch have two: a name means something to its own key only."""
    for name in ("one", "two"):
        program = await site.program(name)
        for n in range(4):
            batch = {"id": "same", "size": 4}
            asked = await program.ask(f"{name}-{n}", action="post_note", arguments={"n": n}, batch=batch)
            assert asked.status_code == 201, asked.text
    names = await column(site.db, "SELECT DISTINCT digest FROM card_place ORDER BY 1")
    assert [each.split("/")[0] for each in names] == ["batch:key:one", "batch:key:two"]


async def test_a_restarted_program_finds_its_questions(site: Street, caller: Caller, grace: Program) -> None:
    """The same questions under the same keys are the same requests, decided or not, whatever the batch is called."""
    first = await caller.submit_many(notes(4))
    await grace.decide((await ids(site, 4))[0])
    again = await caller.submit_many(notes(4))
    assert [each.id for each in first] == [each.id for each in again]
    assert [each.status for each in again] == ["approved", "waiting", "waiting", "waiting"]
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [4]


async def test_one_bad_question_does_not_hold_up_the_others(site: Street, caller: Caller) -> None:
    """What cannot be asked has its error in its place; the others are asked."""
    questions = notes(4)
    questions[1] = ProposedAction("post_note", {"count": float("nan")}, key="bad")
    questions[2] = ProposedAction("post_note", {"count": 1}, key="not a key")
    results = await caller.submit_many(questions)
    assert [isinstance(each, Review) for each in results] == [True, False, False, True]
    assert isinstance(results[2], ApiError | ValueError)


async def test_the_whole_has_one_timeout(site: Street, caller: Caller, grace: Program) -> None:
    """What nobody decides in time is a TimeoutError in its place; requests with a key stay open."""
    asking = asyncio.create_task(caller.ask_many(notes(4), timeout=2))
    await grace.decide((await ids(site, 4))[3])
    results = await asking
    assert [type(each) for each in results] == [TimeoutError, TimeoutError, TimeoutError, Approval]
    assert await column(site.db, "SELECT count(*) FROM approval_request WHERE status = 'waiting'") == [3]


async def test_too_many_are_refused(site: Street, caller: Caller) -> None:
    """More than a hundred at once are refused before anything is asked."""
    with pytest.raises(ValueError, match="at most 100"):
        await caller.submit_many(notes(MOST_AT_ONCE + 1))
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]


@pytest.mark.parametrize(
    "batch", [{"id": "b", "size": 0}, {"id": "b"}, {"id": "", "size": 4}, {"size": 4}, "b"]
)
async def test_a_malformed_batch_is_refused(site: Street, batch: Any) -> None:
    """A batch has a name and a size from 1 to 100; anything else is said, and nothing is asked."""
    program = await site.program()
    assert (await program.ask(batch=batch)).status_code == 422
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [0]
