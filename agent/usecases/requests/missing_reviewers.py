"""Notify the admin channel of a request that too few people can still approve."""

from __future__ import annotations

from collections.abc import Sequence

from agent.database.pools import Database
from agent.domain.request_line import RequestLine
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.store import outbox
from agent.store.outbox import Destination

MISSING = "missing_reviewers"
UNCOUNTED = "uncounted_reviewers"


async def report_missing_reviewers(
    db: Database,
    requests: Sequence[RequestView | RequestLine],
    admin: Destination,
    needed: int,
    line: str = MISSING,
) -> None:
    """Notify once of each request, by revision and set of reviewers.

    Several requests have the same reviewers: one message names the first, and how many more there are.
    """
    names = {f"{line} {each.id} {each.revision} {len(each.approvers)}": each for each in requests}
    async with db.transaction() as tx:
        told = await outbox.find_told(tx, list(names))
        if not (new := {name: each for name, each in names.items() if name not in told}):
            return
        name, first = min(new.items())
        message = outbox.direct(
            admin,
            first.id,
            None,
            line,
            key=name,  # the same for two processes that look at once and find the same requests
            needed=needed,
            channel=first.channel_id,
            request=short_id(first.id),
            text=first.description,
            more=len(new) - 1,
            told=list(new),
        )
        outbox.enqueue(tx, [message])
