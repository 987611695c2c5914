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

from agent.domain.run import AnswerKind, CallState, RunStatus
from agent.store.tables.columns import Timestamp, created, enum_of, metadata

run_status = enum_of(RunStatus, "run_status")
call_state = enum_of(CallState, "call_state")
answer_kind = enum_of(AnswerKind, "answer_kind")

agent_run = Table(
    "agent_run",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("parent_run_id", Uuid),
    Column("parent_call_id", Uuid),  # the call of the parent that this run answers
    # The ancestors and their agents: the root first, the parent last.
    Column("ancestor_ids", ARRAY(Uuid), nullable=False),
    Column("ancestor_agents", ARRAY(Text), nullable=False),
    Column("agent", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("principal", Text, nullable=False),  # which key, command or service started it
    Column("api_key_id", Uuid),  # of the key, if any; child runs have the same
    Column("start_key", Text),  # makes starting idempotent (Slack trigger, event id …)
    Column("session_id", Text),  # the program's id of the conversation that later messages continue
    Column("requester_team_id", Text),
    Column("requester_user_id", Text),
    Column("requester_asserted", Text, nullable=False),  # "slack", "key:<name>", "key:<name> for U…", "none"
    Column("team_id", Text),
    Column("channel_id", Text),
    Column("thread_ts", Text),
    Column("status", run_status, nullable=False),
    Column("cause", Text),
    Column("answer", Text),
    Column("progress", Text),  # what a function agent last reported
    Column("label", Text),  # free text beside the agent's name
    Column("turn", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("tokens_before", BigInteger, nullable=False),  # when it was last resumed
    Column("inputs", Integer, nullable=False),  # inputs for the model
    Column("heard", Integer, nullable=False),  # inputs that the last turn had read
    Column("awaiting_calls", Integer, nullable=False),  # unanswered blocking calls
    Column("branches", Boolean, nullable=False),  # each of their answers wakes it
    Column("model_failures", Integer, nullable=False),
    Column("lease_epoch", BigInteger, nullable=False),
    created(),
    Column("updated_at", Timestamp, nullable=False),
    Column("erased_at", Timestamp),  # task, transcript and results are erased; later content is there
)

tool_call = Table(
    "tool_call",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("run_id", Uuid, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("index", SmallInteger, nullable=False),
    Column("model_call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("raw_arguments", Text, nullable=False),
    Column("tool_version", Text),
    Column("action", LargeBinary),  # canonical bytes, once evaluated
    Column("digest", LargeBinary),
    Column("state", call_state, nullable=False),
    Column("blocking", Boolean, nullable=False),
    Column("ask_no", SmallInteger, nullable=False),  # how often people were asked
    Column("repeats", Uuid),
    Column("announced_at", Timestamp),  # the tool's on_pending hook has run for the current revision
    Column("held", LargeBinary),  # canonical bytes of the prepared action, if not undone yet
    Column("answer_kind", answer_kind),
    Column("answer", Text),
    Column("answered_at", Timestamp),
    Column("retry_at", Timestamp),  # end of a sleep, or the next attempt
    Column("claim_until", Timestamp),  # handed out: an external program may claim it until then
    created(),
    Column("agent", Text),  # of its run; null if version 0006 or earlier answered
    Column("place", Text),  # of a function agent's call: its task, and its number there
)
