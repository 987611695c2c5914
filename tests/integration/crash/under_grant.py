from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from agent.domain.field_constraints import Between
from agent.domain.limits import Limit
from agent.domain.rules import GrantLimits
from agent.store.outbox import Destination
from agent.usecases import grants, limits, policy
from agent.usecases.grants import GrantProposal
from signoff.values import Person
from tests.integration.crash.process import FAULT_STATUS
from tests.integration.crash.street import Street, street, until
from tests.integration.crash.within_limits import all_approved, approve_one, let_leases_end, settled

UNDER_GRANT = ("after_claim", "after_effect", "after_result")
"""Deaths of calls that begin under a grant: claimed with their use, executed, and reported."""

POLICY = """
[defaults]
approvers = ["S0REVIEWERS"]
on_reject = "tell_model"

[grants]
max_for = "1d"
max_uses = 100

[[checkpoint]]
checkpoint_id = "lines"
action_pattern = "write_line"
allow_grants = true

[[limit]]
name = "lines"
action_pattern = "write_line"
of = "count"
per = "all"
within = "24h"
max = 100
"""


async def die_under_a_grant(url: str, folder: Path, *, deaths: Sequence[str]) -> None:
    """One use for each death, and one more call, which people are asked about: the grant is used up."""
    lanes = len(deaths) + 2
    async with street(url, folder, lanes=lanes) as here:
        (folder / "checkpoints.toml").write_text(POLICY)
        await here.start()
        await _allow(here, uses=len(deaths))
        await here.serve.stop()
        for lane, death in enumerate(deaths, 1):
            await here.start(death)
            await here.begin(lane)
            assert await here.serve.ends(60.0) == FAULT_STATUS, f"{death}: {here.serve.said()}"
            await _check_each_use_began_once(here, lane)
        await here.start()
        await let_leases_end(here)
        await until(lambda: settled(here), 30.0, here.serve.said)
        await here.begin(lanes - 1)
        await until(lambda: here.column(_WAITING), 30.0, here.serve.said)
        await until(lambda: all_approved(here), 30.0, here.serve.said)
        # One person's request for a retry is not consent: what was never written is not written under the grant.
        never = [lane for lane, death in enumerate(deaths, 1) if death == "after_claim"]
        assert here.written() == Counter(lane for lane in range(lanes) if lane not in never)
        await _check_each_use_began_once(here, len(deaths))
        await limits.settle_ended(here.db)
        limit = Limit("lines", "write_line", "count", "all", timedelta(days=1), Decimal(100))
        [found] = await limits.by_subject(here.db, [limit])
        assert (found.used, found.waiting) == (Decimal(lanes), Decimal(0))


async def _allow(here: Street, *, uses: int) -> None:
    await here.begin(0)
    await until(lambda: approve_one(here), 30.0, here.serve.said)
    await until(lambda: here.column(_DECIDED), 30.0, here.serve.said)
    [origin] = await here.column(_DECIDED)
    grace = Person(here.slack.workspace.team.id, "U0GRACE")
    proposal = GrantProposal(
        origin=UUID(str(origin)),
        by=grace,
        arguments={"lane": Between(Decimal(0), Decimal(100))},
        facts=None,
        anyone=True,
        lasts=timedelta(hours=1),
        max_uses=uses,
    )
    epoch = await policy.epoch_in_force(here.db)
    place, bounds = Destination(grace.team_id, "C0LANE0"), GrantLimits(timedelta(days=1), 100)
    await grants.propose(here.db, proposal, bounds, {}, place, policy_epoch=epoch)
    await until(lambda: _is_allowed(here), 30.0, here.serve.said)


async def _is_allowed(here: Street) -> bool:
    """Presses again, because the first card may be outdated."""
    decided, running = await here.column(_DECIDED), await here.column(_RUNNING)
    if len(decided) < 2:
        await approve_one(here)
    return len(decided) == 2 and not running


async def _check_each_use_began_once(here: Street, expected: int) -> None:
    [(uses, kept, begun)] = await here.rows(_USES)
    assert uses == kept == begun == expected, "a use without its attempt, or an attempt without its use"


_WAITING = "SELECT id FROM approval_request WHERE status = 'waiting'"
_DECIDED = "SELECT request_id FROM decision ORDER BY decided_at"
_RUNNING = "SELECT id FROM agent_run WHERE status IN ('working', 'pending_approval')"
_USES = """
SELECT g.uses, (SELECT count(*) FROM grant_use WHERE grant_id = g.request_id),
       (SELECT count(DISTINCT e.call_id) FROM execution AS e JOIN grant_use AS u ON u.key = 'call:' || e.call_id
        WHERE e.request_id IS NULL)
FROM approval_grant AS g
"""
