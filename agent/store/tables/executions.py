"""The tables of attempts, and of votes and settlements about them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Enum,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
)

from agent.domain.request import ExecutionStatus
from agent.store.tables.columns import Timestamp, created, enum_of, metadata

execution_status = enum_of(ExecutionStatus, "execution_status")
settlement_verdict = Enum("retry", "done", name="settlement_verdict")

execution = Table(
    "execution",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("call_id", Uuid, nullable=False),
    Column("request_id", Uuid),
    Column("attempt", SmallInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("idempotent", Boolean, nullable=False),  # when its worker is gone
    Column("read_only", Boolean, nullable=False),  # no effect that could be in doubt
    Column("worker", Text, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    Column("status", execution_status, nullable=False),
    Column("result", Text),
    Column("error", Text),
    Column("late_result", Text),  # after the outcome; overwrites nothing
    Column("started_at", Timestamp, nullable=False),
    Column("finished_at", Timestamp),
    Column("policy_epoch", Integer, nullable=False),  # at its claim
)

retry_vote = Table(
    "retry_vote",
    metadata,
    Column("execution_id", Uuid, primary_key=True),
    Column("team_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("note", Text),
    created(),
)

settlement = Table(
    "settlement",
    metadata,
    Column("execution_id", Uuid, primary_key=True),
    Column("verdict", settlement_verdict, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("note", Text),
    created(),
)
