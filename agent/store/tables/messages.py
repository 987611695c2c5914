"""The tables of messages to Slack, digests, and notices."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Enum, Integer, SmallInteger, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from agent.store.tables.columns import created, metadata

delivery_kind = Enum("run_root", "run_line", "card", "thread_line", "direct", "digest", name="delivery_kind")
delivery_state = Enum("pending", "sent", "dead", "skipped", name="delivery_state")
notice_kind = Enum("webhook", "email", name="notice_kind")

digest_card = Table(
    "digest_card",
    metadata,
    Column("team_id", Text, primary_key=True),
    Column("channel_id", Text, primary_key=True),
    Column("agent", Text, primary_key=True),
    Column("ts", Text, nullable=False),
    Column("outdated", Boolean, nullable=False),
)

delivery = Table(
    "delivery",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", delivery_kind, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text, nullable=False),
    Column("request_id", Uuid),
    Column("run_id", Uuid),
    Column("agent", Text),  # of a digest
    Column("body", JSONB, nullable=False),  # rendered when sent
    Column("coalesce_key", Text),  # one pending row per key
    Column("state", delivery_state, nullable=False),
    Column("wanted", Integer, nullable=False),  # incremented when a sent card must change again
    Column("attempts", SmallInteger, nullable=False),
    Column("ambiguous", Boolean, nullable=False),
    Column("ts", Text),
    Column("error", Text),
    created(),
)

notice = Table(
    "notice",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", notice_kind, nullable=False),
    Column("webhook_id", Uuid),
    Column("recipient", Text),  # of an e-mail
    Column("event", Text, nullable=False),
    Column("request_id", Uuid),
    Column("run_id", Uuid),
    Column("state", delivery_state, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    Column("error", Text),
    created(),
)
