from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from agent.database.pools import BudgetExceeded
from agent.domain.people import Standing
from agent.domain.request import Ballot, Verdict
from agent.usecases import runs
from agent.usecases.runs import NewRun
from signoff.values import Person
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from tests.integration import alone
from tests.integration.crash.process import Serve
from tests.integration.crash.street import Street, street, until

TEAM = "T0SANDBOX"
ADA, GRACE = Person(TEAM, "U0ADA"), Person(TEAM, "U0GRACE")
STANDING = Standing(GRACE, frozenset({"S0REVIEWERS"}))
P99_SECONDS = 5.0
CHECKPOINT = """
[[checkpoint]]
checkpoint_id = "lines"
action_pattern = "write_line"
channel = "C0LANE0"
approvers = ["S0REVIEWERS"]
"""


async def rolling_restart(url: str, folder: Path, number: int, *, seconds: float) -> None:
    """Each run resumes once while its two workers are replaced, p99 within 5 s."""
    async with street(url, folder, lanes=1) as here:
        (folder / "checkpoints.toml").write_text(CHECKPOINT)
        settings = {**here.serve.settings, "SIGNOFF_ROLES": "worker,scheduler", "SIGNOFF_DRAIN_SECONDS": "10"}
        workers = [Serve(settings, folder), Serve(settings, folder)]
        try:
            await asyncio.gather(*(worker.start(listens=False) for worker in workers))
            requests = await _waiting(here, number)
            approving = asyncio.create_task(_approve(here, requests, seconds))
            for worker in workers:
                assert await worker.stop() == 0, worker.said()
                await worker.start(listens=False)
            await approving
            completed = "SELECT id FROM agent_run WHERE status = 'completed'"

            async def over() -> bool:
                return len(await here.column(completed)) == number

            await until(over, 60.0, lambda: [worker.said() for worker in workers])
        finally:
            await asyncio.gather(*(worker.kill() for worker in workers))
        await _check(here, number)


async def _waiting(here: Street, number: int) -> list[UUID]:
    def propose(body: dict[str, Any]) -> ScriptedTurn:
        lane = int(body["messages"][1]["content"].split("=")[1])
        return ScriptedTurn(None, (ScriptedCall("write_line", {"lane": lane}),))

    here.model.script(*[propose] * number)
    for lane in range(number):
        new = NewRun("writer", "1", f"write lane={lane}", "test", ADA, "slack", TEAM, "C0LANE0")
        await runs.start(here.db, new)
    waiting = "SELECT id FROM approval_request WHERE status = 'waiting'"

    async def all_wait() -> bool:
        return len(await here.column(waiting)) == number

    await until(all_wait, 120.0)
    found: list[UUID] = await here.column(waiting)
    return found


async def _approve(here: Street, requests: list[UUID], seconds: float) -> None:
    """Spread the approvals over the restart."""
    for request_id in requests:
        ballot = Ballot(request_id, 1, Verdict.APPROVE, STANDING, {GRACE: STANDING}, "test")
        while True:
            with suppress(BudgetExceeded):  # a person would click again, which is safe
                await alone.vote(here.db, ballot)
                break
        await asyncio.sleep(seconds / len(requests))


async def _check(here: Street, number: int) -> None:
    assert here.written() == Counter(range(number))
    assert await here.column("SELECT status::text FROM execution GROUP BY 1") == ["succeeded"]
    assert await here.column("SELECT count(*) FROM execution") == [number]
    took = sorted(map(float, await here.column(_TOOK)))
    p99 = took[int(0.99 * (len(took) - 1))]
    assert p99 <= P99_SECONDS, (
        f"{p99:.2f} s from the decision to the tool; median {took[len(took) // 2]:.2f} s"
    )


_TOOK = """
SELECT extract(epoch FROM e.started_at - d.decided_at)
FROM execution AS e JOIN decision AS d ON d.request_id = e.request_id
"""
