"""The tables of runs and their calls."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY

from agent.domain.run import AnswerKind, CallExecutor, CallState, RunStatus
from agent.store.tables.columns import Timestamp, created, enum_of, metadata

run_status = enum_of(RunStatus, "run_status")
call_state = enum_of(CallState, "call_state")
answer_kind = enum_of(AnswerKind, "answer_kind")
call_executor = enum_of(CallExecutor, "call_executor")

agent_run = Table(
    "agent_run",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("parent_run_id", Uuid),
    Column("parent_call_id", Uuid),  # which this run answers
    # The root first.
    Column("ancestor_ids", ARRAY(Uuid), nullable=False),
    Column("ancestor_agents", ARRAY(Text), nullable=False),
    Column("agent", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("api_key_id", Uuid),  # child runs have the same
    Column("start_key", Text),  # makes starting idempotent (Slack trigger, event id …)
    Column("session_id", Text),  # the program's id of the conversation
    Column("program_user", Text),  # the program's name for its user; nobody in Slack
    Column("requester_team_id", Text),
    Column("requester_user_id", Text),
    Column("requester_asserted", Text, nullable=False),  # "slack", "key:<name>", "key:<name> for U…", "none"
    Column("team_id", Text),
    Column("channel_id", Text),
    Column("thread_ts", Text),
    Column("status", run_status, nullable=False),
    Column("cause", Text),
    Column("answer", Text),
    Column("progress", Text),
    Column("label", Text),
    Column("turn", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("tokens_before", BigInteger, nullable=False),  # at the last resumption
    Column("inputs", Integer, nullable=False),
    Column("heard", Integer, nullable=False),  # inputs read by the last turn
    Column("awaiting_calls", Integer, nullable=False),  # unanswered blocking calls
    Column("branches", Boolean, nullable=False),  # each answer wakes it
    Column("model_failures", Integer, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    created(),
    Column("updated_at", Timestamp, nullable=False),
    Column("erased_at", Timestamp),
)

tool_call = Table(
    "tool_call",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("run_id", Uuid),  # None: a program proposes it
    Column("turn", Integer),
    Column("index", SmallInteger),
    Column("model_call_id", Text),
    Column("tool", Text, nullable=False),
    Column("raw_arguments", Text),
    Column("tool_version", Text),
    Column("action", LargeBinary),  # canonical, once evaluated
    Column("digest", LargeBinary),
    Column("state", call_state, nullable=False),
    Column("blocking", Boolean, nullable=False),
    Column("ask_no", SmallInteger, nullable=False),  # how often people were asked
    Column("repeats", Uuid),
    Column("announced_at", Timestamp),  # on_pending has run for the current revision
    Column("held", LargeBinary),  # canonical prepared action, if not undone
    Column("answer_kind", answer_kind),
    Column("answer", Text),
    Column("answered_at", Timestamp),
    Column("retry_at", Timestamp),  # end of a sleep, or the next attempt
    created(),
    Column("agent", Text, nullable=False),
    Column("place", Text),  # a function agent's task, and the call's number there
    Column("executor", call_executor, nullable=False),
    Column("executor_key", Text),  # the only one that may execute it
    Column("lapse_at", Timestamp),  # a program can claim it until then
    Column("lapsed_at", Timestamp),
    Column("handed_over_at", Timestamp),  # the program that asks has read the approval
    Column("principal", Text),  # of that program
    Column("client_id", Text),  # its name for the action
    Column("content_digest", LargeBinary),  # of what a repeated question must match
    Column("session", Text),  # its name for what belongs together
)
