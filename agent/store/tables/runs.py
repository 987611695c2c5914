"""Runs, their transcripts and their calls."""

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
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.domain.run import AnswerKind, CallState, RunStatus
from agent.store.tables.columns import Timestamp, created, enum_of, metadata

run_status = enum_of(RunStatus, "run_status")
call_state = enum_of(CallState, "call_state")
answer_kind = enum_of(AnswerKind, "answer_kind")
message_role = Enum("user", "assistant", "note", name="message_role")

agent_run = Table(
    "agent_run",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("parent_run_id", Uuid, ForeignKey("agent_run.id")),
    Column("parent_call_id", Uuid),  # the call of the parent that this run answers
    # The runs that handed the task down, and their agents: the root first, the parent last.
    Column("ancestor_ids", ARRAY(Uuid), nullable=False, server_default="{}"),
    Column("ancestor_agents", ARRAY(Text), nullable=False, server_default="{}"),
    Column("agent", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("principal", Text, nullable=False),  # which key, command or service started it
    Column("api_key_id", Uuid),  # of the key, if one did; its child runs have the same
    Column("start_key", Text, unique=True),  # makes starting idempotent (Slack trigger, event id …)
    Column(
        "session_id", Text
    ),  # the program's own name for a conversation, which a further message continues
    Column("requester_team_id", Text),
    Column("requester_user_id", Text),
    Column("requester_asserted", Text, nullable=False),  # "slack", "key:<name>", "key:<name> for U…", "none"
    Column("team_id", Text),
    Column("channel_id", Text),
    Column("thread_ts", Text),
    Column("status", run_status, nullable=False, server_default=RunStatus.WORKING.value),
    Column("cause", Text),
    Column("answer", Text),
    Column("progress", Text),  # what a function agent last said about how far it is
    Column("turn", Integer, nullable=False, server_default="0"),
    Column("steps", Integer, nullable=False, server_default="0"),
    Column("tokens", BigInteger, nullable=False, server_default="0"),
    Column("tokens_before", BigInteger, nullable=False, server_default="0"),  # when it was last resumed
    Column("inputs", Integer, nullable=False, server_default="0"),  # how many things the model should hear
    Column("heard", Integer, nullable=False, server_default="0"),  # how many of them the last turn had read
    Column("awaiting_calls", Integer, nullable=False, server_default="0"),  # unanswered blocking calls
    Column("branches", Boolean, nullable=False, server_default="false"),  # each answer of them wakes it
    Column("branches_epoch", BigInteger),  # of a lease whose worker knows what to do with such a run
    Column("model_failures", Integer, nullable=False, server_default="0"),
    Column("look_at", Timestamp),  # not before: back-off after a model error
    Column("lease_epoch", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", Timestamp),
    Column("lease_worker", Text),
    created(),
    Column("updated_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    Column("erased_at", Timestamp),  # its task, transcript and results are gone; what came later is there
    CheckConstraint("heard <= inputs", name="heard_within_inputs"),
    CheckConstraint("awaiting_calls >= 0", name="awaiting_not_negative"),
    CheckConstraint("(requester_user_id IS NULL) = (requester_team_id IS NULL)", name="requester_with_team"),
    CheckConstraint("(lease_until IS NULL) = (lease_worker IS NULL)", name="lease_whole"),
    CheckConstraint("status NOT IN ('denied', 'failed') OR cause IS NOT NULL", name="ended_badly_with_cause"),
    CheckConstraint(
        "ancestor_ids[cardinality(ancestor_ids)] IS NOT DISTINCT FROM parent_run_id",
        name="last_ancestor_is_parent",
    ),
    CheckConstraint("cardinality(ancestor_ids) = cardinality(ancestor_agents)", name="every_ancestor_named"),
    Index(
        "ix_agent_run_runnable",
        "agent",
        func.coalesce(text("look_at"), text("created_at")),
        postgresql_where=text("inputs > heard AND status IN ('working', 'pending_approval')"),
    ),
    Index("ix_agent_run_agent", "agent", "status", "id"),
    Index("ix_agent_run_team", "team_id", "id"),
    Index(
        "ix_agent_run_at_work",
        "team_id",
        "id",
        postgresql_where=text("status IN ('working', 'pending_approval')"),
    ),
    Index(
        "ix_agent_run_over",
        "team_id",
        "status",
        "id",
        postgresql_where=text("status NOT IN ('working', 'pending_approval')"),
    ),
    Index("ix_agent_run_principal", "principal", "id"),
    Index(
        "ix_agent_run_session",
        "principal",
        "session_id",
        "id",
        postgresql_where=text("session_id IS NOT NULL"),
    ),
    Index("ix_agent_run_thread", "team_id", "channel_id", "thread_ts", unique=True),
    Index("ix_agent_run_parent", "parent_run_id"),
    Index("ix_agent_run_leased", "lease_until", postgresql_where=text("lease_until IS NOT NULL")),
)

run_message = Table(
    "run_message",
    metadata,
    Column("run_id", Uuid, ForeignKey("agent_run.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("role", message_role, nullable=False),
    Column("text", Text),
    Column("author_team_id", Text),
    Column("author_user_id", Text),
    Column("source_key", Text, unique=True),  # Slack's event id: the same message is heard once
    created(),
    CheckConstraint("seq >= 1", name="seq_from_one"),
)

tool_call = Table(
    "tool_call",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("run_id", Uuid, ForeignKey("agent_run.id", ondelete="CASCADE"), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("index", SmallInteger, nullable=False),
    Column("model_call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("raw_arguments", Text, nullable=False),
    Column("tool_version", Text),
    Column("action", LargeBinary),  # canonical bytes, once judged
    Column("digest", LargeBinary),
    Column("state", call_state, nullable=False, server_default=CallState.NEW.value),
    Column("blocking", Boolean, nullable=False),
    Column("ask_no", SmallInteger, nullable=False, server_default="0"),  # how often people were asked
    Column("repeats", Uuid, ForeignKey("tool_call.id")),
    Column("announced_at", Timestamp),  # the tool's on_pending hook has run, for the present revision
    Column("held", LargeBinary),  # canonical bytes of what it has, or may have, run for; not taken back yet
    Column("answer_kind", answer_kind),
    Column("answer", Text),
    Column("answered_at", Timestamp),
    Column("lease_until", Timestamp),  # somebody is looking at it; guards hooks, not effects
    Column("retry_at", Timestamp),  # ready from then on: the end of a sleep, or the next attempt
    created(),
    Column("agent", Text),  # of its run; of a call that version 0006 or an earlier one answered, null
    Column("place", Text),  # of a function agent's: which task of it, and the how-manieth there
    UniqueConstraint("run_id", "turn", "index"),
    CheckConstraint("(action IS NULL) = (digest IS NULL)", name="action_with_digest"),
    CheckConstraint("digest IS NULL OR digest = sha256(action)", name="digest_of_action"),
    CheckConstraint("(state = 'answered') = (answered_at IS NOT NULL)", name="answered_with_time"),
    CheckConstraint(
        "state NOT IN ('answered', 'refused') OR answer_kind IS NOT NULL", name="ended_with_kind"
    ),
    CheckConstraint(
        "state IN ('new', 'refused', 'answered') OR action IS NOT NULL", name="judged_has_action"
    ),
    CheckConstraint("state = 'answered' OR agent IS NOT NULL", name="open_with_agent"),
    Index(
        "ix_tool_call_due",
        "agent",
        func.coalesce(text("retry_at"), text("created_at")),
        postgresql_where=text("state = 'ready'"),
    ),
    Index(
        "ix_tool_call_to_do",
        "agent",
        "created_at",
        postgresql_where=text("state IN ('new', 'refused') OR (state = 'asked' AND announced_at IS NULL)"),
    ),
    Index("ix_tool_call_open", "agent", "state", "run_id", postgresql_where=text("state <> 'answered'")),
    Index("ix_tool_call_delegated", "run_id", postgresql_where=text("state = 'delegated'")),
    Index("uq_tool_call_repeats", "repeats", unique=True),
    Index("uq_tool_call_place", "run_id", "place", unique=True, postgresql_where=text("place IS NOT NULL")),
)
