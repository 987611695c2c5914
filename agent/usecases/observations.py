"""What observed checkpoints would have asked, and the weekly message to operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from agent.database.pools import Database
from agent.domain.observation import ObservedCount, summary, week_before
from agent.domain.policy import Policy
from agent.domain.rules import ObservedRule
from agent.store import clock, observations, outbox
from agent.store import policy as policies
from agent.store.observations import ObservedExample
from agent.store.outbox import Destination
from signoff import formats


async def observed(
    db: Database, policy: Policy, since: datetime, *, examples: int
) -> tuple[list[ObservedCount], list[ObservedExample]]:
    """The policy's observed checkpoints are listed even without evaluations."""
    async with db.connection() as connection:
        counted = await observations.counts(connection, since)
        found = await observations.examples(connection, since, examples)
    return _with_uncounted(counted, policy.observed), found


async def report_week(db: Database, policy: Policy, admin: Destination | None) -> int:
    """Notify operators, once, of the last whole week (UTC), unless it had no observations."""
    if admin is None:
        return 0
    async with db.transaction() as tx:
        starts, ends = week_before((await clock.now(tx)).astimezone(UTC))
        if not await observations.take_week(tx, starts):
            return 0
        counted = await observations.counts(tx, starts, ends)
        stored = await policies.in_force(tx)
        stood = stored is not None and stored.epoch == policy.epoch and stored.created_at < ends
        totals = _with_uncounted(counted, [each for each in policy.observed if stood and each.until > starts])
        if totals:
            text = f"{formats.moment(starts)} to {formats.moment(ends)}\n{summary(totals)}"
            outbox.enqueue(tx, [outbox.direct(admin, None, None, "observed", text=text)])
    return 1 if totals else 0


def _with_uncounted(counted: list[ObservedCount], rules: Sequence[ObservedRule]) -> list[ObservedCount]:
    known = {(each.checkpoint_id, each.version) for each in counted}
    names = [(each.rule.checkpoint_id, each.version) for each in rules]
    return [*counted, *(ObservedCount(*name, judged=0) for name in names if name not in known)]
