"""The weekly message to operators, and what the policy did over some days, which the reports show too."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain import checkpoints
from agent.domain.errors import PolicyError
from agent.domain.policy import Policy
from agent.domain.rules import RESERVED_IDS
from agent.domain.week import PolicyUse, week_before, week_lines
from agent.store import clock, observations, outbox, views, week
from agent.store import policy as policies
from agent.store.outbox import Destination
from agent.store.views.reports import MOST_OF_WEEK, ReportScope
from agent.usecases.observations import with_uncounted
from signoff.values import Person

NOBODY = ""


async def report_week(db: Database, policy: Policy, admin: Destination | None) -> int:
    """Notify operators, once, of the last whole week (UTC), unless there is nothing to say."""
    if admin is None:
        return 0
    async with db.connection() as connection:
        starts, ends = week_before((await clock.now(connection)).astimezone(UTC))
        if await week.is_told(connection, starts):
            return 0
        everything = ReportScope(Person(admin.team_id, NOBODY), everything=True)
        last = (ends - timedelta(days=1)).date()
        report = await views.report(connection, everything, 7, last, MOST_OF_WEEK)
        use = await _use(connection, policy, starts, ends, None)
        lines = week_lines(report, use, await week.work(connection, starts, ends))
    async with db.transaction() as tx:
        if not await week.take_week(tx, starts) or not lines:
            return 0
        said = [asdict(each) for each in lines]
        period = {"since": starts.isoformat(), "until": ends.isoformat()}
        outbox.enqueue(tx, [outbox.direct(admin, None, None, "week", key=None, lines=said, **period)])
    return 1


async def policy_use(db: Database, policy: Policy, since: datetime, until: datetime, most: int) -> PolicyUse:
    """What the policy in force did in this time; of more than ``most`` evaluations, only the latest count."""
    async with db.connection() as connection:
        return await _use(connection, policy, since, until, most)


async def _use(
    connection: Connection, policy: Policy, since: datetime, until: datetime, most: int | None
) -> PolicyUse:
    counted = await week.caught(connection, since, until, most)
    seen = await observations.counts(connection, since, until)
    stored = await policies.in_force(connection)
    stood = stored is not None and stored.epoch == policy.epoch and stored.created_at < until
    total = sum(each.number for each in counted)
    cut = most is not None and total >= most
    always = [] if cut else await _always(connection, since, until)
    found = {name for each in counted for name in (each.checkpoint_id, each.ruled_by)}
    denied: dict[str, int] = {}
    for each in counted:
        if each.denied:
            name = each.checkpoint_id or "unmatched"
            denied[name] = denied.get(name, 0) + each.denied
    return PolicyUse(
        total,
        tuple(denied.items()),
        tuple(always),
        tuple(name for name in always if name not in found),
        tuple(with_uncounted(seen, [each for each in policy.observed if stood and each.until > since])),
        cut,
    )


async def _always(connection: Connection, since: datetime, until: datetime) -> list[str]:
    """Checkpoints that every policy of this time has, in the order of the last; none before the first policy."""
    names: list[set[str]] = []
    order: list[str] = []
    for each in await policies.between(connection, since, until):
        try:
            read = checkpoints.load(each.source, filename=f"policy {each.epoch}")
        except PolicyError:
            return []
        order = [rule.checkpoint_id for rule in read.deciding]
        names.append(set(order))
    return [name for name in order if all(name in each for each in names) and name not in RESERVED_IDS]
