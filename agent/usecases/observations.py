"""What observed checkpoints would have asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agent.database.pools import Database
from agent.domain.observation import ObservedCount
from agent.domain.policy import Policy
from agent.domain.rules import ObservedRule
from agent.store import observations
from agent.store.observations import ObservedExample


async def observed(
    db: Database, policy: Policy, since: datetime, *, examples: int
) -> tuple[list[ObservedCount], list[ObservedExample]]:
    """The policy's observed checkpoints are listed even without evaluations."""
    async with db.connection() as connection:
        counted = await observations.counts(connection, since)
        found = await observations.examples(connection, since, examples)
    return with_uncounted(counted, policy.observed), found


def with_uncounted(counted: list[ObservedCount], rules: Sequence[ObservedRule]) -> list[ObservedCount]:
    """Add observed checkpoints that nothing was evaluated for."""
    known = {(each.checkpoint_id, each.version) for each in counted}
    names = [(each.rule.checkpoint_id, each.version) for each in rules]
    return [*counted, *(ObservedCount(*name, judged=0) for name in names if name not in known)]
