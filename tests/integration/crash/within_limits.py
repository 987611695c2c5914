"""A service that dies while its calls use up a limit over time: no use is overdrawn, lost or doubled."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from sqlalchemy import text

from agent.domain.limits import Limit
from agent.domain.people import Standing
from agent.usecases import limits, requests
from signoff.values import Person
from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street, street, until

BY_ITSELF = ("after_claim", "after_effect", "after_result")
"""Deaths of calls that the limit has room for: claimed, executed, and reported."""

ASKED = ("before_request_commits", "after_request_commits", "after_approved_claim")
"""Deaths of calls that people are asked about."""

MOST_STARTS = 5

POLICY = """
[defaults]
approvers = ["S0REVIEWERS"]
unmatched = "allow"
on_reject = "tell_model"

[[limit]]
name = "lines"
action_pattern = "write_line"
of = "count"
per = "all"
within = "24h"
max = {room}
"""


async def die_within_limits(
    url: str, folder: Path, *, by_itself: Sequence[str], asked: Sequence[str]
) -> None:
    """At the end every line is written once and every use counts once."""
    room, lanes = len(by_itself), len(by_itself) + len(asked)
    async with street(url, folder, lanes=lanes) as here:
        (folder / "checkpoints.toml").write_text(POLICY.format(room=room))
        for lane, death in enumerate([*by_itself, *asked]):
            for _ in range(
                MOST_STARTS
            ):  # again if the service died of an earlier call, before it heard of this one
                await here.start(death)
                await here.begin(lane)
                if death == "after_approved_claim":
                    await until(lambda: _dies_of_an_approval(here), 30.0, here.serve.said)
                assert await here.serve.ends(60.0) == FAULT_STATUS, f"{death}: {here.serve.said()}"
                await _check_never_overdrawn(here, room)
                if await here.column(_BEGUN, lane=f"C0LANE{lane}"):
                    break
            else:
                raise AssertionError(f"{death}: never heard of its call: {here.serve.said()}")
        await here.start()
        await let_leases_end(here)
        expected = len(asked)
        await until(lambda: _waits(here, expected), 30.0, here.serve.said)
        await until(lambda: settled(here), 30.0, here.serve.said)
        await until(lambda: all_approved(here), 30.0, here.serve.said)
        assert dict(here.written()) == dict.fromkeys(range(lanes), 1)
        await limits.settle_ended(here.db)
        assert await _used(here) == (Decimal(lanes), Decimal(0))


async def _used(here: Street) -> tuple[Decimal, Decimal]:
    limit = Limit("lines", "write_line", "count", "all", timedelta(days=1), Decimal(1))
    [found] = await limits.by_subject(here.db, [limit])
    return found.used, found.waiting


async def _check_never_overdrawn(here: Street, room: int) -> None:
    """Without an approval in the audit log, no more than fits has been claimed."""
    [claimed] = await here.column("SELECT count(DISTINCT call_id) FROM execution WHERE request_id IS NULL")
    assert claimed <= room
    [counted] = await here.column(
        "SELECT count(*) FROM limit_use AS u JOIN execution AS e ON e.call_id = u.key"
    )
    [attempts] = await here.column("SELECT count(*) FROM execution")
    assert counted == attempts, "an attempt without its use"


async def let_leases_end(here: Street) -> None:
    async with here.db.transaction() as tx:
        await tx.execute(
            text("UPDATE execution SET lease_until = clock_timestamp() WHERE status = 'claimed'")
        )


async def _waits(here: Street, expected: int) -> bool:
    """Whether people have been asked about every call without room, decided or not."""
    [asked] = await here.column("SELECT count(*) FROM approval_request")
    return bool(asked == expected)


async def settled(here: Street) -> bool:
    """Ada settles calls in doubt: Done where a line was written, otherwise Retry."""
    team = here.slack.workspace.team.id
    for execution in await here.column(_DOUBTFUL):
        [task] = await here.column(_TASK, id=execution)
        lane = int(task.rpartition("=")[2])
        verdict = "done" if here.written()[lane] else "retry"
        ada = Standing(Person(team, "U0ADA"), frozenset({"S0REVIEWERS"}))
        grace = Standing(Person(team, "U0GRACE"), frozenset({"S0REVIEWERS"}))
        [asked] = await here.column("SELECT request_id FROM execution WHERE id = :id", id=execution)
        await requests.settle(here.db, execution, grace if asked else ada, verdict)  # type: ignore[arg-type]
    open_ones = (
        "SELECT 1 FROM execution WHERE status = 'claimed'"  # asked first: an open attempt becomes doubtful
    )
    return not await here.column(open_ones) and not await here.column(_DOUBTFUL)


async def all_approved(here: Street) -> bool:
    if await here.column(_WAITING):
        await approve_one(here)
    return not await here.column("SELECT 1 FROM agent_run WHERE status IN ('working', 'pending_approval')")


async def _dies_of_an_approval(here: Street) -> bool:
    """Press Approve until the service has died. A press while it connects to Slack is lost."""
    if here.serve.alive:
        await approve_one(here)
    return not here.serve.alive


async def approve_one(here: Street) -> bool:
    """All cards are in the service's own channel."""
    for card in here.cards(0):
        if any("signoff:approve" in str(block) for block in card.get("blocks", [])):
            await here.slack.person("U0GRACE").click(card, "signoff:approve")
            return True
    return False


_BEGUN = "SELECT 1 FROM agent_run WHERE channel_id = :lane"
_WAITING = "SELECT 1 FROM approval_request WHERE status = 'waiting'"
_DOUBTFUL = """
SELECT e.id FROM execution AS e
WHERE e.status = 'in_doubt' AND NOT EXISTS (SELECT 1 FROM settlement AS s WHERE s.execution_id = e.id)
"""
_TASK = """
SELECT a.task FROM execution AS e JOIN tool_call AS c ON c.id = e.call_id JOIN agent_run AS a ON a.id = c.run_id
WHERE e.id = :id
"""
