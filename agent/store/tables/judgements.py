"""The table of policy evaluations."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Integer, LargeBinary, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from agent.store.tables.columns import created, metadata

judgement = Table(
    "judgement",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("policy_epoch", Integer, nullable=False),
    Column("call_id", Uuid),
    Column("request_id", Uuid),  # its revision, by default the first, has the content
    Column("revision", Integer),
    Column("grant_id", Uuid),
    Column("principal", Text),
    Column("agent", Text, nullable=False),
    Column("requester", Text),
    Column("tool", Text, nullable=False),
    Column("traits", JSONB, nullable=False),  # declared by the tool
    Column("action", LargeBinary),
    Column("facts", LargeBinary),
    Column("facts_failed", Boolean, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("checkpoint_id", Text),
    Column("because", Text, nullable=False),
    Column("ruled", Text),  # by the checkpoints alone, if something else was decisive
    Column("ruled_by", Text),
    Column("observed", JSONB),
    created(),
)
