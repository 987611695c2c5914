"""Notify the admin channel of a request that too few people can still approve."""

from __future__ import annotations

from agent.database.pools import Database
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.store import outbox
from agent.store.outbox import Destination


async def report_missing_reviewers(db: Database, view: RequestView, admin: Destination, needed: int) -> None:
    """Notify once per revision and set of reviewers."""
    key = f"reviewers:{view.id}:{view.revision}:{len(view.approvers)}"
    facts = {
        "needed": needed,
        "channel": view.channel_id,
        "request": short_id(view.id),
        "text": view.description,
    }
    message = outbox.direct(admin, view.id, None, "missing_reviewers", key=key, **facts)
    async with db.transaction() as tx:
        if not await outbox.was_enqueued(tx, view.id, key):
            outbox.enqueue(tx, [message])
