"""The table of grants."""

from __future__ import annotations

from sqlalchemy import Column, Integer, Numeric, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import ARRAY

from agent.store.tables.columns import Timestamp, created, metadata

approval_grant = Table(
    "approval_grant",
    metadata,
    Column("request_id", Uuid, primary_key=True),
    Column("agent", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("checkpoint_id", Text, nullable=False),
    Column("agents", ARRAY(Text), nullable=False),  # with ancestors: a pause of any ends the grant
    Column("until", Timestamp, nullable=False),
    Column("max_uses", Integer, nullable=False),
    Column("max_sum", Numeric),
    Column("uses", Integer, nullable=False),  # by a trigger of grant_use
    Column("used_sum", Numeric, nullable=False),
    created(),
    Column("ended_at", Timestamp),
    Column("ended_by", Text),
    Column("ended_because", Text),
)
