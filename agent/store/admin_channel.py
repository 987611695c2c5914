"""The operators' channel, as the service found it in Slack: a command that changes something knows only its name."""

from __future__ import annotations

from sqlalchemy import text

from agent.database.transaction import Connection, fetch, query
from agent.store.outbox import Destination


async def find(connection: Connection) -> Destination | None:
    """``None``: no policy in force has named one, or no service has found it yet."""
    found = await fetch(connection, _FIND)
    return Destination(found[0].team_id, found[0].channel_id) if found else None


async def put(connection: Connection, epoch: int, destination: Destination | None) -> bool:
    """Note where the channel of this policy is; false if it was there already, or a later policy's is known."""
    await query(connection, _MAKE)
    row = (await fetch(connection, _LOCK))[0]
    team_id, channel_id = (destination.team_id, destination.channel_id) if destination else (None, None)
    if row.policy_epoch > epoch:
        return False
    await query(connection, _PUT, epoch=epoch, team=team_id, channel=channel_id)
    return (row.team_id, row.channel_id) != (team_id, channel_id)


_FIND = text("SELECT team_id, channel_id FROM admin_channel WHERE channel_id IS NOT NULL")
_MAKE = text("INSERT INTO admin_channel (policy_epoch) VALUES (0) ON CONFLICT DO NOTHING")
_LOCK = text("SELECT policy_epoch, team_id, channel_id FROM admin_channel FOR NO KEY UPDATE")
_PUT = text("UPDATE admin_channel SET policy_epoch = :epoch, team_id = :team, channel_id = :channel")
