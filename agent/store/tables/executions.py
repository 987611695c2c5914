"""Attempts at calls, and what people settled about those in doubt."""

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
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    false,
    func,
    text,
)

from agent.domain.request import ExecutionStatus
from agent.store.tables.columns import Timestamp, created, enum_of, metadata

execution_status = enum_of(ExecutionStatus, "execution_status")
settlement_verdict = Enum("retry", "done", name="settlement_verdict")

execution = Table(
    "execution",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("call_id", Uuid, ForeignKey("tool_call.id", ondelete="CASCADE")),
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE")),
    Column("attempt", SmallInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("idempotent", Boolean, nullable=False),  # may be tried again when its worker is gone
    Column("read_only", Boolean, nullable=False, server_default=false()),  # no effect that could be in doubt
    Column("worker", Text, nullable=False),
    Column("claim_hash", LargeBinary),  # of the token by which an executor outside reports
    Column("lease_epoch", BigInteger, nullable=False, server_default="1"),
    Column("lease_until", Timestamp, nullable=False),
    Column("status", execution_status, nullable=False, server_default=ExecutionStatus.CLAIMED.value),
    Column("result", Text),
    Column("error", Text),
    Column("late_result", Text),  # arrived after the outcome was written; overwrites nothing
    Column("started_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    Column("finished_at", Timestamp),
    Column("policy_epoch", Integer),  # of the policy that it was claimed by
    CheckConstraint("call_id IS NOT NULL OR request_id IS NOT NULL", name="of_something"),
    CheckConstraint("(call_id IS NULL) = (claim_hash IS NOT NULL)", name="outside_with_claim"),
    CheckConstraint("(status = 'claimed') = (finished_at IS NULL)", name="finished_with_time"),
    Index(
        "uq_execution_attempt_outside",
        "request_id",
        "attempt",
        unique=True,
        postgresql_where=text("call_id IS NULL"),
    ),
    Index("uq_execution_attempt", "call_id", "attempt", unique=True),
    Index("uq_execution_open_call", "call_id", unique=True, postgresql_where=text("status = 'claimed'")),
    Index(
        "uq_execution_open_request", "request_id", unique=True, postgresql_where=text("status = 'claimed'")
    ),
    Index("ix_execution_leased", "lease_until", postgresql_where=text("status = 'claimed'")),
    Index("ix_execution_request", "request_id"),
)

retry_vote = Table(
    "retry_vote",
    metadata,
    Column("execution_id", Uuid, ForeignKey("execution.id", ondelete="CASCADE"), primary_key=True),
    Column("team_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("note", Text),
    created(),
)

settlement = Table(
    "settlement",
    metadata,
    Column("execution_id", Uuid, ForeignKey("execution.id", ondelete="CASCADE"), primary_key=True),
    Column("verdict", settlement_verdict, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("note", Text),
    created(),
)
