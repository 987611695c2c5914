"""Requests that expired before their card could be posted: one message instead of their cards."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from uuid import UUID

from agent.database.pools import Database
from agent.usecases import deliveries
from agent.usecases.due_messages import DueMessage
from slackbot.slack_api.messenger import Messenger, TooManyMessages


@dataclass(frozen=True, slots=True)
class UnseenInChannel:
    """``ts``: of the message that tells, if Slack has accepted it."""

    request_ids: tuple[UUID, ...]
    ts: str | None


async def find_unseen(
    db: Database, messenger: Messenger, due: DueMessage, settle: float
) -> UnseenInChannel | None:
    """All of the channel. ``None``: the card of ``due`` was posted after all. Raises SlackError.

    Slack may have accepted any card whose post is unconfirmed, or this message in its place: its metadata says which.
    What may lie beyond a search counts as unseen: a second message does no harm, and none would leave people untold.
    """
    rows = await deliveries.unseen(db, due.destination)
    doubtful = {
        str(row.delivery_id): (row.request_id, row.since)
        for row in rows
        if row.delivery_id not in (None, due.id)
    }
    if due.ambiguous and due.request_id is not None:  # also if a digest counted it before
        doubtful[str(due.id)] = (due.request_id, due.since)
    found = {}
    if times := [since for _, since in doubtful.values() if since is not None]:
        await asyncio.sleep(settle)
        try:
            found = await messenger.find_all(due.destination.channel_id, doubtful.keys(), None, min(times))
        except TooManyMessages as error:
            found = error.found
    seen = {doubtful[delivery][0] for delivery, posted in found.items() if posted.is_card}
    if due.request_id in seen:
        return None
    ids = dict.fromkeys(row.request_id for row in rows if row.request_id not in seen)
    return UnseenInChannel(tuple(ids), next((each.ts for each in found.values() if not each.is_card), None))
