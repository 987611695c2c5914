"""What is told: messages for Slack, webhooks and e-mails."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Enum,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from agent.store.tables.columns import Timestamp, created, metadata

delivery_kind = Enum("run_root", "run_line", "card", "thread_line", "direct", "digest", name="delivery_kind")
delivery_state = Enum("pending", "sent", "dead", "skipped", name="delivery_state")
notice_kind = Enum("webhook", "email", name="notice_kind")

destination = Table(
    "outlet",
    metadata,
    Column("team_id", Text, primary_key=True),
    Column("channel_id", Text, primary_key=True),
    Column("lease_epoch", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", Timestamp),
    Column("lease_worker", Text),
    Column("next_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),  # of a new message
    Column("trouble", Text),  # why nothing can be told there until somebody mends it
    Column("trouble_since", Timestamp),
    Column("next_update_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("(lease_until IS NULL) = (lease_worker IS NULL)", name="lease_whole"),
    CheckConstraint("(trouble IS NULL) = (trouble_since IS NULL)", name="trouble_whole"),
)

digest_card = Table(
    "digest_card",
    metadata,
    Column("team_id", Text, primary_key=True),
    Column("channel_id", Text, primary_key=True),
    Column("agent", Text, primary_key=True),
    Column("ts", Text, nullable=False),
    Column("outdated", Boolean, nullable=False, server_default=text("false")),  # to be posted again
)

delivery = Table(
    "delivery",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", delivery_kind, nullable=False),
    Column("priority", SmallInteger, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text, nullable=False),
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE")),
    Column("run_id", Uuid, ForeignKey("agent_run.id", ondelete="CASCADE")),
    Column("agent", Text),  # of a digest
    Column("body", JSONB, nullable=False),  # which fact to tell; rendered when it is sent
    Column("coalesce_key", Text),  # pending rows with the same key are one
    Column("state", delivery_state, nullable=False, server_default="pending"),
    Column("wanted", Integer, nullable=False, server_default="1"),  # grows when a sent card must change again
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("ambiguous", Boolean, nullable=False, server_default=text("false")),
    Column("not_before", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    Column("ts", Text),
    Column("error", Text),
    created(),
    Column("sent_at", Timestamp),
    CheckConstraint("num_nonnulls(request_id, run_id, agent) > 0 OR kind = 'direct'", name="about_something"),
    CheckConstraint("(kind = 'digest') = (agent IS NOT NULL)", name="digest_of_agent"),
    Index(
        "ix_delivery_pending",
        "team_id",
        "channel_id",
        "kind",
        "priority",
        "id",
        postgresql_where=text("state = 'pending'"),
    ),
    Index(
        "uq_delivery_coalesce",
        "coalesce_key",
        unique=True,
        postgresql_where=text("state = 'pending' AND coalesce_key IS NOT NULL"),
    ),
    Index("ix_delivery_dead", "created_at", postgresql_where=text("state = 'dead'")),
    Index("ix_delivery_request", "request_id"),
    Index("ix_delivery_run", "run_id"),
)

webhook = Table(
    "webhook",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # signs what is sent, so it cannot be kept as a hash
    Column("events", JSONB, nullable=False),
    Column("created_by", Text, nullable=False),
    created(),
    Column("removed_at", Timestamp),
    CheckConstraint(
        """events <@ '["request.opened", "decision.made", "run.finished"]' AND events <> '[]'""",
        name="known_events",
    ),
    Index("uq_webhook_name", "name", unique=True, postgresql_where=text("removed_at IS NULL")),
)

notice = Table(
    "notice",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("kind", notice_kind, nullable=False),
    Column("webhook_id", Uuid, ForeignKey("webhook.id")),
    Column("recipient", Text),  # of an e-mail
    Column("event", Text, nullable=False),
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE")),
    Column("run_id", Uuid, ForeignKey("agent_run.id", ondelete="CASCADE")),
    Column("state", delivery_state, nullable=False, server_default="pending"),
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("next_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    Column("error", Text),
    created(),
    Column("sent_at", Timestamp),
    CheckConstraint("(kind = 'webhook') = (webhook_id IS NOT NULL)", name="to_webhook"),
    CheckConstraint("(kind = 'email') = (recipient IS NOT NULL)", name="to_somebody"),
    CheckConstraint("num_nonnulls(request_id, run_id) = 1", name="about_something"),
    Index("ix_notice_due", "next_at", postgresql_where=text("state = 'pending'")),
    Index("ix_notice_target", "webhook_id", "next_at", postgresql_where=text("state = 'pending'")),
    Index("ix_notice_dead", "created_at", postgresql_where=text("state = 'dead'")),
    Index("ix_notice_request", "request_id"),
    Index("ix_notice_run", "run_id"),
)
