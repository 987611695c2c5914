"""Tables and columns for composed reads. Migrations are the source of the schema.

``search_path`` (``SIGNOFF_DB_SCHEMA``) names the schema.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Enum,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    Uuid,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR

from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.run import AnswerKind, CallExecutor, CallState, RunStatus
from signoff.values import Risk

metadata = MetaData()

Timestamp = DateTime(timezone=True)


def enum_of(values: type[StrEnum], name: str) -> Enum:
    """An enum of values (``waiting``), not of Python's member names."""
    return Enum(values, name=name, values_callable=lambda kind: [member.value for member in kind])


def created() -> Column[object]:
    """Return the column of a row's time of creation, a new one for each table."""
    return Column("created_at", Timestamp, nullable=False)


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


request_status = enum_of(RequestStatus, "request_status")
verdict = enum_of(Verdict, "verdict")
risk = enum_of(Risk, "risk")
surface = Enum("channel", "home", "modal", "command", name="surface")

rule = Table(
    "rule",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("content", JSONB, nullable=False),  # the snapshot of a `Rule`
    created(),
)

approval_request = Table(
    "approval_request",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("api_key_id", Uuid),
    Column("client_id", Text, nullable=False),
    Column("source", Text, nullable=False),  # "run" or "api"
    Column("run_id", Uuid),
    Column("call_id", Uuid, nullable=False),
    Column("ask_no", SmallInteger, nullable=False),
    Column("agent", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("requester_team_id", Text),
    Column("requester_user_id", Text),
    Column("requester_asserted", Text, nullable=False),
    Column("checkpoint_id", Text, nullable=False),
    Column("rule_digest", LargeBinary, nullable=False),
    Column("approvers", JSONB, nullable=False),  # the policy's, after escalation also others
    Column("risk", risk, nullable=False),
    Column("approvals_required", SmallInteger, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text, nullable=False),
    Column("status", request_status, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("voided_at", Timestamp),  # approved, but its facts changed, or too late: asked again
    created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("decided_at", Timestamp),
    Column("reminded", SmallInteger, nullable=False),  # in the current window
    Column("remind_next", Timestamp),
    Column("escalated_at", Timestamp),
    Column("excluded", JSONB, nullable=False),  # whose approval does not count: [{team, user, why}, …]
    Column("limits", JSONB),  # when opened: [{name, used, …}, …]
    Column("policy_epoch", Integer, nullable=False),
    Column("rejected_before", Uuid),  # in which people rejected the same action
    Column("answer_form", JSONB(none_as_null=True)),  # what it wants besides yes or no; None: an approval
)

request_revision = Table(
    "request_revision",
    metadata,
    Column("request_id", Uuid, primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("action", LargeBinary, nullable=False),  # RFC 8785 bytes: the source of truth
    Column("digest", LargeBinary, nullable=False),
    Column("arguments", JSONB(none_as_null=True)),  # for queries, never read back for execution
    Column("facts", LargeBinary),  # RFC 8785 bytes
    Column("facts_source", Text),  # "program" or "signoff"; None: the tool itself, or none
    Column("author", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("rationale", Text),
    Column("context", JSONB, nullable=False),
    Column("editor_team_id", Text),
    Column("editor_user_id", Text),
    Column("changes", JSONB(none_as_null=True)),  # [{path, before, after}, …]
    created(),
    Column("erased_at", Timestamp),  # action, arguments, facts and context are gone; the digest stays
    Column("signature_digest", LargeBinary),  # of the tool's parameters; None: not compared
)

vote = Table(
    "vote",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("request_id", Uuid, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("verdict", verdict, nullable=False),
    Column("reason", Text),
    Column("path", Text, nullable=False),
    Column("superseded_by", Uuid),
    Column("together", Uuid),  # the form of several requests that cast it
    created(),
)

answer = Table(
    "answer",
    metadata,
    Column("vote_id", Uuid, primary_key=True),
    Column("request_id", Uuid, nullable=False),
    Column("value", LargeBinary, nullable=False),  # RFC 8785 bytes
    Column("digest", LargeBinary, nullable=False),
    Column("own_words", Boolean, nullable=False),  # the person wrote text: in it, or as its reason
    Column("created_at", Timestamp, nullable=False),
    Column("erased_at", Timestamp),
)

decision = Table(
    "decision",
    metadata,
    Column("request_id", Uuid, primary_key=True),
    Column("outcome", request_status, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("team_id", Text),
    Column("user_id", Text),
    Column("reason", Text),
    Column("decided_at", Timestamp, nullable=False),
    Column("approved_by", JSONB, nullable=False),
)

card_place = Table(
    "card_place",
    metadata,
    Column("nonce", Text, primary_key=True),
    Column("request_id", Uuid, nullable=False),
    Column("surface", surface, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text),
    Column("user_id", Text),
    Column("ts", Text),
    Column("folded", Boolean, nullable=False),
    Column("digest", Text),  # of its batch or group; None: no digest, or that of its sender's flood
    Column("told_at", Timestamp),
    created(),
)


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

request_group = Table(
    "request_group",
    metadata,
    Column("name", Text, primary_key=True),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text, nullable=False),
    Column("sender", Text, nullable=False),
    Column("ts", Text),
    created(),
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


audit_event = Table(
    "audit_event",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("at", Timestamp, nullable=False),
    Column("actor", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("detail", JSONB, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

audit_head = Table(
    "audit_head",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)


request_search = Table(
    "request_search",
    metadata,
    Column("request_id", Uuid, primary_key=True),
    Column("recorded", BigInteger, nullable=False),  # number of audit events at that time
    Column("words", TSVECTOR, nullable=False),  # as people may read them, without masked values
)


pause = Table(
    "pause",
    metadata,
    Column("scope", Text, primary_key=True),  # an agent's name, or "*"
    Column("by", Text, nullable=False),
    Column("reason", Text),
    created(),
)
