"""Notify the admin channel of a request that too few people can still approve."""

from __future__ import annotations

from collections.abc import Sequence

from agent.database.pools import Database
from agent.database.transaction import Connection
from agent.domain.request_line import RequestLine
from agent.domain.request_view import RequestView
from agent.domain.short_ids import short_id
from agent.store import outbox
from agent.store.outbox import Destination

MISSING = "missing_reviewers"
UNCOUNTED = "uncounted_reviewers"
ALONE, TOGETHER = "alone", "together"


async def report_missing_reviewers(
    db: Database,
    requests: Sequence[RequestView | RequestLine],
    admin: Destination,
    needed: int,
    line: str = MISSING,
) -> None:
    """Notify once per revision and set of reviewers.

    Several requests have the same reviewers: one message names the first, and how many more there are.
    """
    together = len(requests) > 1
    async with db.transaction() as tx:
        told = [await _told(tx, each, line) for each in requests]
        new = [each for each, how in zip(requests, told, strict=True) if how is None]
        if not new or (together and TOGETHER in told):
            return
        first = new[0]
        facts = {
            "needed": needed,
            "channel": first.channel_id,
            "request": short_id(first.id),
            "text": first.description,
            "more": len(new) - 1,
        }
        key = _key(first, line, TOGETHER if together else ALONE)
        outbox.enqueue(tx, [outbox.direct(admin, first.id, None, line, key=key, **facts)])


async def _told(connection: Connection, request: RequestView | RequestLine, line: str) -> str | None:
    """How operators were told of it."""
    for how in (ALONE, TOGETHER):
        if await outbox.was_enqueued(connection, request.id, _key(request, line, how)):
            return how
    return None


def _key(request: RequestView | RequestLine, line: str, how: str) -> str:
    return f"{line}:{how}:{request.id}:{request.revision}:{len(request.approvers)}"
