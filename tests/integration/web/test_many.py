"""Several questions of a program at once: one message, one wait, and a decision for each."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.client import Approval, ProposedAction, Review, operations
from signoff.client.operations import MOST_AT_ONCE
from signoff.errors import ApiError, ApprovalExpired, CollaborationError
from slackbot.web.http.places import Places
from tests.integration.asking import column
from tests.integration.web.conftest import ADA, Program, Street, until
from tests.integration.web.test_client import PATIENT, Caller, caller, grace, key, kind, policy
from tests.warm_python import program

__all__ = ["caller", "grace", "key", "kind", "policy"]


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


async def test_the_wait_for_several_takes_one_connection(
    site: Street,
    caller: Caller,
    grace: Program,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many it asks about, a program holds one long poll, and says once that it waits."""
    held: list[int] = []
    add = Places._add

    def counted(places: Places, name: str, number: int) -> None:
        add(places, name, number)
        held.append(places.held)

    async def said() -> bool:
        return any(each.startswith("paused") for each in caplog.messages)

    monkeypatch.setattr(Places, "_add", counted)
    with caplog.at_level(logging.INFO, "signoff.client"):
        asking = asyncio.create_task(caller.ask_many(notes(12), timeout=60))
        asked = await ids(site, 12)
        await until(said)
        for each in asked:
            await grace.decides(each)
        assert {each.status for each in await asking} == {"approved"}
    assert set(held) == {0, 1}
    (line,) = [each for each in caplog.messages if each.startswith("paused")]
    assert "about 12 requests, the first of them" in line


async def test_each_question_has_its_own_time(site: Street, caller: Caller, grace: Program) -> None:
    """What nobody decides in its own time is withdrawn then, unless it has a key; the others go on waiting."""
    questions = [
        ProposedAction("post_note", {"count": 1}, timeout=1),
        ProposedAction("post_note", {"count": 2}, key="kept", timeout=1),
        ProposedAction("post_note", {"count": 3}),
    ]
    asking = asyncio.create_task(caller.ask_many(questions, timeout=60))
    last = (await ids(site, 3))[2]
    await site.house.shows("SELECT array_agg(status::text ORDER BY id) FROM approval_request", BRIEF)
    assert not asking.done()
    await grace.decides(last)
    first, second, third = await asking
    assert (type(first), type(second), third.status) == (TimeoutError, TimeoutError, "approved")
    assert ("was withdrawn" in str(first), "stays open under its key kept" in str(second)) == (True, True)


BRIEF = ["cancelled", "waiting", "waiting"]


@pytest.mark.parametrize("policy", [PATIENT], indirect=True)
async def test_policy_says_how_long_each_is_waited_for(
    site: Street, caller: Caller, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a timeout of the program each waits until policy lets it expire, an escalation included."""
    monkeypatch.setattr(operations, "TIMEOUT", 0.2)
    questions = [ProposedAction(name, {}) for name in ("brief", "escalated", "delete_records")]
    asking = asyncio.create_task(caller.ask_many(questions))
    escalated = (await ids(site, 3))[1]
    await site.house.shows("SELECT count(escalated_at) FROM approval_request", 1)
    await grace.decides(escalated)
    brief, decided, silent = await asking
    assert (type(brief), decided.status, type(silent)) == (ApprovalExpired, "approved", TimeoutError)
    assert "within 0.2 s; the request was withdrawn" in str(silent)


async def test_a_batch_gets_no_more_of_a_keys_calls(site: Street, kind: str) -> None:
    """Each question counts as one call: what is beyond the key's rate is refused, and asked once it may be again."""
    slow = await api_keys.create(site.db, "slow", [Scope.REQUEST], by="test", owner=ADA, per_minute=2)
    caller = Caller(kind, site.url, slow)
    results = await caller.submit_many(notes(6), patience=0.5)
    statuses = [getattr(each, "status", None) for each in results]
    assert 2 <= statuses.count("waiting") <= 4  # the minute may turn in between
    assert statuses.count("waiting") + statuses.count(429) == 6
    await site.write("UPDATE api_key SET per_minute = 600 WHERE name = 'slow' RETURNING id")
    again = await caller.submit_many(notes(6))
    assert [each.status for each in again] == ["waiting"] * 6
    for now, before in zip(again, results, strict=True):
        assert now.id == getattr(before, "id", now.id)
    await caller.close()


async def test_a_revoked_key_ends_the_wait(
    site: Street, caller: Caller, grace: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service refuses the program while it waits: what it knows to be decided stands, the rest has the error."""
    monkeypatch.setattr(operations, "LONGEST_WAIT", 0.3)
    asking = asyncio.create_task(caller.ask_many(notes(2), timeout=60))
    await grace.decides((await ids(site, 2))[0])
    await site.house.shows("SELECT count(handed_over_at) FROM tool_call", 1)
    await api_keys.revoke(site.db, "agent", by="test")
    known, unknown = await asking
    assert (known.status, type(unknown), unknown.status) == ("approved", ApiError, 401)


async def test_facts_are_looked_up_before_the_first_is_asked(site: Street, kind: str) -> None:
    """A slow look-up does not tear a batch apart: until the last is looked up, nobody has been asked about any."""
    billing = await api_keys.create(site.db, "billing", [Scope.REQUEST, Scope.FACTS], by="test", owner=ADA)
    caller, loop, asked = Caller(kind, site.url, billing), asyncio.get_running_loop(), list[int]()

    def facts(count: int) -> dict[str, int]:
        look = column(site.db, "SELECT count(*) FROM approval_request")
        asked.extend(asyncio.run_coroutine_threadsafe(look, loop).result(30))
        return {"twice": 2 * count}

    questions = [ProposedAction("post_note", {"count": n}, facts=facts) for n in range(4)]
    results = await caller.submit_many(questions)
    assert [each.raw["facts"] for each in results] == [{"twice": 2 * n} for n in range(4)]
    assert asked == [0, 0, 0, 0]
    await caller.close()


MANY = """
import sys
from signoff import ApprovalClient, ProposedAction
client = ApprovalClient(sys.argv[1], sys.argv[2])
notes = [ProposedAction("post_note", {"count": n}, key=f"n-{n}") for n in range(1, 6)]
print(*(getattr(each, "status", each.__class__.__name__) for each in client.ask_many(notes, timeout=60)))
"""


async def test_a_killed_program_finds_all_its_decisions(
    site: Street, key: str, grace: Program, tmp_path: Path
) -> None:
    """A program killed with `kill -9` while it waits for several finds each decision, and asks nobody again."""

    async def started() -> asyncio.subprocess.Process:
        command = [*program(tmp_path, MANY), site.url, key]
        return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)

    first = await started()
    asked = await ids(site, 5)
    first.kill()
    await first.wait()
    for number, each in enumerate(asked):
        await grace.decides(each, "rejected" if number == 2 else "approved")
    said, _ = await (await started()).communicate()
    assert said.decode().split() == ["approved", "approved", "CollaborationError", "approved", "approved"]
    assert await column(site.db, "SELECT count(*) FROM approval_request") == [5]


async def test_several_share_a_message(site: Street, caller: Caller) -> None:
    """From four on, the questions of one batch and checkpoint are gathered; fewer, or those without one, are not."""
    await caller.submit_many(notes(5))
    (gathered,) = await column(site.db, "SELECT DISTINCT digest FROM card_place")
    assert gathered.startswith(("batch:key:agent/", "group:"))
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
    names = await column(
        site.db,
        """SELECT DISTINCT p.digest || ' of ' || r.principal FROM card_place AS p
           JOIN approval_request AS r ON r.id = p.request_id WHERE p.digest IS NOT NULL""",
    )
    assert sorted(each.split(" of ")[1] for each in names) == ["key:one", "key:two"]
    assert len({each.split(" of ")[0] for each in names}) == 2


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
