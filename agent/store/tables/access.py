"""API keys, sessions, stored replies, the pause switch, the policy and its judgements."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from agent.store.tables.columns import Timestamp, created, metadata

pause = Table(
    "pause",
    metadata,
    Column("scope", Text, primary_key=True),  # an agent's name, or "*"
    Column("by", Text, nullable=False),
    Column("reason", Text),
    created(),
    CheckConstraint("scope <> ''", name="names_something"),
)

policy = Table(
    "policy",
    metadata,
    Column("epoch", Integer, primary_key=True, autoincrement=False),
    Column("source", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("by", Text, nullable=False),
    Column("restores", Integer, ForeignKey("policy.epoch")),
    created(),
    CheckConstraint("epoch >= 1", name="counts_from_one"),
    CheckConstraint("octet_length(digest) = 32", name="digest_size"),
    CheckConstraint("restores < epoch", name="restores_an_earlier_one"),
)

judgement = Table(
    "judgement",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("policy_epoch", Integer, nullable=False),
    Column("call_id", Uuid),
    Column("request_id", Uuid),  # whose revision has the content: this one, by default the first
    Column("revision", Integer),
    Column("grant_id", Uuid),  # of which it is a use
    Column("principal", Text),
    Column("agent", Text, nullable=False),
    Column("requester", Text),
    Column("tool", Text, nullable=False),
    Column("traits", JSONB, nullable=False),  # what the tool says of itself
    Column("action", LargeBinary),
    Column("facts", LargeBinary),
    Column("facts_failed", Boolean, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("checkpoint_id", Text),
    Column("because", Text, nullable=False),
    Column("ruled", Text),  # what the checkpoints alone said, where something else was decisive
    Column("ruled_by", Text),
    Column("observed", JSONB),  # what observed checkpoints would have made of it
    created(),
    CheckConstraint("verdict IN ('run', 'ask', 'deny')", name="known_verdict"),
    CheckConstraint("ruled IN ('run', 'ask')", name="known_ruling"),
    CheckConstraint("jsonb_typeof(observed) = 'array'", name="observed_is_list"),
    Index("ix_judgement_content", "id", postgresql_where=text("action IS NOT NULL")),
    Index("ix_judgement_observed", "id", postgresql_where=text("observed IS NOT NULL")),
)

observed_week = Table(
    "observed_week",
    metadata,
    Column("starts", Timestamp, primary_key=True),  # of a week that was told to operators
    created(),
)

api_key = Table(
    "api_key",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("prefix", Text, nullable=False),  # the beginning of the key, by which people tell keys apart
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("old_hash", LargeBinary),  # of the key before the last rotation, valid for a while
    Column("old_until", Timestamp),
    Column("scopes", JSONB, nullable=False),
    Column("owner_team_id", Text),
    Column("owner_user_id", Text),
    Column("agent", Text),
    Column("per_minute", Integer, nullable=False, server_default="600"),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Timestamp),
    Column("revoked_at", Timestamp),
    created(),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    CheckConstraint("(old_hash IS NULL) = (old_until IS NULL)", name="old_whole"),
    CheckConstraint(
        """scopes <@ '["request", "on_behalf", "facts", "decide", "read", "admin"]' AND scopes <> '[]'""",
        name="known_scopes",
    ),
    CheckConstraint("NOT (scopes ? 'request' AND scopes ? 'decide')", name="who_asks_never_decides"),
    CheckConstraint("NOT scopes ? 'decide' OR owner_user_id IS NOT NULL", name="people_decide"),
    CheckConstraint("(owner_user_id IS NULL) = (owner_team_id IS NULL)", name="owner_with_team"),
    CheckConstraint("per_minute >= 1", name="at_least_one_a_minute"),
    Index("uq_api_key_old_hash", "old_hash", unique=True),
)

key_use = Table(
    "key_use",
    metadata,
    Column("key_id", Uuid, primary_key=True),
    Column("minute", Timestamp, primary_key=True),
    Column("calls", Integer, nullable=False),
    Index("ix_key_use_minute", "minute"),
    prefixes=["UNLOGGED"],
)

http_reply = Table(
    "http_reply",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("key", Text, primary_key=True),  # the Idempotency-Key of a call
    Column("fingerprint", LargeBinary, nullable=False),  # SHA-256 of method, path and body
    Column("status", SmallInteger),  # none while the first call is under way
    Column("body", JSONB),
    created(),
    CheckConstraint("octet_length(fingerprint) = 32", name="fingerprint_size"),
    CheckConstraint("(status IS NULL) = (body IS NULL)", name="whole"),
    Index("ix_http_reply_created", "created_at"),
)

sign_in_link = Table(
    "sign_in_link",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("used_at", Timestamp),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    Index("ix_sign_in_link_expires", "expires_at"),
)

web_session = Table(
    "web_session",
    metadata,
    Column("hash", LargeBinary, primary_key=True),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("via", Text, nullable=False),  # "link" | "openid"
    created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    Index("ix_web_session_expires", "expires_at"),
)
