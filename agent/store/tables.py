"""The tables, as SQLAlchemy Core sees them. Migrations are the source of the database; this mirrors them.

No schema is named here: the connection's ``search_path`` (``SIGNOFF_DB_SCHEMA``) decides it. Triggers, roles,
the view ``pending_reviews`` and procrastinate's objects live in the migrations alone.
"""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from agent.domain.request import ExecutionStatus, RequestStatus, Verdict
from agent.domain.run import AnswerKind, CallState, RunStatus
from signoff.values import Risk

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

Timestamp = DateTime(timezone=True)


def _enum(values: type[StrEnum], name: str) -> Enum:
    """A PostgreSQL enum that stores the values (``waiting``), not Python's member names (``WAITING``)."""
    return Enum(values, name=name, values_callable=lambda kind: [member.value for member in kind])


run_status = _enum(RunStatus, "run_status")
request_status = _enum(RequestStatus, "request_status")
call_state = _enum(CallState, "call_state")
answer_kind = _enum(AnswerKind, "answer_kind")
verdict = _enum(Verdict, "verdict")
risk = _enum(Risk, "risk")
execution_status = _enum(ExecutionStatus, "execution_status")
message_role = Enum("user", "assistant", "note", name="message_role")
surface = Enum("channel", "home", "modal", "command", name="surface")
delivery_kind = Enum("run_root", "run_line", "card", "thread_line", "direct", "digest", name="delivery_kind")
delivery_state = Enum("pending", "sent", "dead", "skipped", name="delivery_state")
settlement_verdict = Enum("retry", "done", name="settlement_verdict")
notice_kind = Enum("webhook", "email", name="notice_kind")


def _created() -> Column[object]:
    return Column("created_at", Timestamp, nullable=False, server_default=func.clock_timestamp())


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
    Column("model_failures", Integer, nullable=False, server_default="0"),
    Column("look_at", Timestamp),  # not before: back-off after a model error
    Column("lease_epoch", BigInteger, nullable=False, server_default="0"),
    Column("lease_until", Timestamp),
    Column("lease_worker", Text),
    _created(),
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
        "look_at",
        postgresql_where=text("inputs > heard AND status IN ('working', 'pending_approval')"),
    ),
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
    _created(),
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
    _created(),
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
    Index(
        "ix_tool_call_runnable",
        "created_at",
        postgresql_where=text("state IN ('new', 'ready', 'refused')"),
    ),
    Index(
        "ix_tool_call_unannounced",
        "created_at",
        postgresql_where=text("state = 'asked' AND announced_at IS NULL"),
    ),
    Index("ix_tool_call_delegated", "run_id", postgresql_where=text("state = 'delegated'")),
    Index("uq_tool_call_repeats", "repeats", unique=True),
)

approval_request = Table(
    "approval_request",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("principal", Text, nullable=False),
    Column("api_key_id", Uuid),  # of the key that opened it, if one did
    Column("client_id", Text, nullable=False),
    Column("content_digest", LargeBinary, nullable=False),  # of everything that a re-open must repeat
    Column("source", Text, nullable=False),  # "run" or "api"
    Column("run_id", Uuid, ForeignKey("agent_run.id", ondelete="CASCADE")),
    Column("call_id", Uuid, ForeignKey("tool_call.id", ondelete="CASCADE")),
    Column("ask_no", SmallInteger, nullable=False, server_default="1"),
    Column("agent", Text, nullable=False),
    Column("agent_version", Text, nullable=False),
    Column("requester_team_id", Text),
    Column("requester_user_id", Text),
    Column("requester_asserted", Text, nullable=False),
    Column("checkpoint_id", Text, nullable=False),
    Column("policy", JSONB, nullable=False),
    Column("policy_digest", LargeBinary, nullable=False),
    Column("approvers", JSONB, nullable=False),  # who may decide now: the policy's, and after escalation more
    Column("risk", risk, nullable=False),
    Column("approvals_required", SmallInteger, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text, nullable=False),
    Column("status", request_status, nullable=False, server_default=RequestStatus.WAITING.value),
    Column("revision", Integer, nullable=False, server_default="1"),
    Column("voided_at", Timestamp),  # approved, but what was shown changed: asked again
    _created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("decided_at", Timestamp),
    Column("reminded", SmallInteger, nullable=False, server_default="0"),  # in the present window
    Column("remind_next", Timestamp),
    Column("escalated_at", Timestamp),
    Column("lapse_at", Timestamp),  # an approval for an executor outside can be claimed until then
    Column("lapsed_at", Timestamp),
    Column("excluded", JSONB, nullable=False),  # whose approval does not count: [{team, user, why}, …]
    UniqueConstraint("principal", "client_id"),
    UniqueConstraint("call_id", "ask_no"),
    CheckConstraint("expires_at > created_at", name="expires_after_created"),
    CheckConstraint("approvals_required >= 1", name="at_least_one_approval"),
    CheckConstraint("(status = 'waiting') = (decided_at IS NULL)", name="decided_with_time"),
    CheckConstraint("voided_at IS NULL OR status = 'approved'", name="only_approved_voided"),
    CheckConstraint("octet_length(policy_digest) = 32", name="policy_digest_size"),
    CheckConstraint("jsonb_typeof(approvers) = 'array' AND approvers <> '[]'", name="somebody_may_decide"),
    CheckConstraint("jsonb_typeof(excluded) = 'array'", name="excluded_is_list"),
    CheckConstraint("reminded >= 0", name="reminded_not_negative"),
    CheckConstraint(
        "num_nonnulls(lapse_at, lapsed_at) = 0 OR (status = 'approved' AND call_id IS NULL)",
        name="only_approved_lapses",
    ),
    CheckConstraint("num_nonnulls(lapse_at, lapsed_at) <= 1", name="lapses_once"),
    CheckConstraint("(source = 'run') = (call_id IS NOT NULL)", name="run_request_has_call"),
    CheckConstraint("(requester_user_id IS NULL) = (requester_team_id IS NULL)", name="requester_with_team"),
    Index("ix_approval_request_client", "client_id", postgresql_where=text("source = 'api'")),
    Index("ix_approval_request_due", "expires_at", postgresql_where=text("status = 'waiting'")),
    Index("ix_approval_request_lapse", "lapse_at", postgresql_where=text("lapse_at IS NOT NULL")),
    Index("ix_approval_request_remind", "remind_next", postgresql_where=text("status = 'waiting'")),
    # Audiences (approvers, channel) are few: whoever looks for what waits for them steps through these first.
    Index(
        "ix_approval_request_audience",
        "team_id",
        "approvers",
        "channel_id",
        "id",
        postgresql_where=text("status = 'waiting'"),
    ),
    Index("ix_approval_request_run", "run_id"),
    Index("ix_approval_request_team", "team_id", "created_at", "id"),
    Index("ix_approval_request_principal", "principal", "created_at", "id"),
    Index("ix_approval_request_requester", "requester_team_id", "requester_user_id", "created_at", "id"),
    # By time and not by id alone: for an order by id the planner would walk the primary key.
    Index(
        "ix_approval_request_run_waiting",
        "team_id",
        "run_id",
        postgresql_where=text("status = 'waiting' AND run_id IS NOT NULL"),
    ),
    Index(
        "ix_approval_request_waiting",
        "team_id",
        "created_at",
        "id",
        postgresql_where=text("status = 'waiting'"),
    ),
    Index(
        "ix_approval_request_decided",
        "team_id",
        "decided_at",
        "id",
        postgresql_where=text("decided_at IS NOT NULL"),
    ),
    Index(
        "ix_approval_request_agent",
        "team_id",
        "agent",
        "decided_at",
        "id",
        postgresql_where=text("decided_at IS NOT NULL"),
    ),
    Index(
        "ix_approval_request_status",
        "team_id",
        "status",
        "decided_at",
        "id",
        postgresql_where=text("decided_at IS NOT NULL"),
    ),
)

request_revision = Table(
    "request_revision",
    metadata,
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE"), primary_key=True),
    Column("n", Integer, primary_key=True),
    Column("tool", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("action", LargeBinary, nullable=False),  # RFC 8785 bytes: the truth of the action
    Column("digest", LargeBinary, nullable=False),
    Column("arguments", JSONB(none_as_null=True)),  # a projection for queries, never read back for execution
    Column("facts", LargeBinary),  # RFC 8785 bytes
    Column("author", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("rationale", Text),
    Column("context", JSONB, nullable=False),
    Column("editor_team_id", Text),  # the reviewer whose edit made it
    Column("editor_user_id", Text),
    Column("changes", JSONB(none_as_null=True)),  # what the edit changed: [{path, before, after}, …]
    _created(),
    Column("erased_at", Timestamp),  # action, arguments, facts and context are gone; the digest stays
    Column("signature_digest", LargeBinary),  # of the tool's parameters then; None: not compared
    CheckConstraint("erased_at IS NOT NULL OR digest = sha256(action)", name="digest_of_action"),
    CheckConstraint(
        "erased_at IS NULL OR (octet_length(action) = 0 AND num_nonnulls(arguments, facts, rationale) = 0)",
        name="erased_whole",
    ),
    CheckConstraint("octet_length(signature_digest) = 32", name="signature_digest_size"),
    CheckConstraint("n >= 1", name="n_from_one"),
    CheckConstraint("(editor_user_id IS NULL) = (editor_team_id IS NULL)", name="editor_with_team"),
    CheckConstraint("(editor_user_id IS NULL) = (changes IS NULL)", name="edit_with_changes"),
    CheckConstraint("n <= 1 OR editor_user_id IS NOT NULL", name="later_ones_edited"),
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
    Column(
        "superseded_by",
        Uuid,
        ForeignKey("vote.id", deferrable=True, initially="DEFERRED", ondelete="CASCADE"),
    ),
    _created(),
    ForeignKeyConstraint(
        ["request_id", "revision"],
        ["request_revision.request_id", "request_revision.n"],
        ondelete="CASCADE",
    ),
    Index(
        "uq_vote_live",
        "request_id",
        "team_id",
        "user_id",
        unique=True,
        postgresql_where=text("superseded_by IS NULL"),
    ),
)

decision = Table(
    "decision",
    metadata,
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE"), primary_key=True),
    Column("outcome", request_status, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("team_id", Text),
    Column("user_id", Text),
    Column("reason", Text),
    Column("decided_at", Timestamp, nullable=False, server_default=func.clock_timestamp()),
    CheckConstraint("outcome <> 'waiting'", name="is_an_outcome"),
    CheckConstraint("outcome NOT IN ('approved', 'rejected') OR user_id IS NOT NULL", name="people_decide"),
    CheckConstraint("octet_length(digest) = 32", name="digest_size"),
    Index("ix_decision_person", "team_id", "user_id", "decided_at", "request_id"),
)

execution = Table(
    "execution",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("call_id", Uuid, ForeignKey("tool_call.id", ondelete="CASCADE")),
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE")),
    Column("attempt", SmallInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("idempotent", Boolean, nullable=False),  # may be tried again when its worker is gone
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

settlement = Table(
    "settlement",
    metadata,
    Column("execution_id", Uuid, ForeignKey("execution.id", ondelete="CASCADE"), primary_key=True),
    Column("verdict", settlement_verdict, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("note", Text),
    _created(),
)

card_place = Table(
    "card_place",
    metadata,
    Column("nonce", Text, primary_key=True),
    Column("request_id", Uuid, ForeignKey("approval_request.id", ondelete="CASCADE"), nullable=False),
    Column("surface", surface, nullable=False),
    Column("team_id", Text, nullable=False),
    Column("channel_id", Text),
    Column("user_id", Text),
    Column("ts", Text),
    Column(
        "folded", Boolean, nullable=False, server_default=text("false")
    ),  # shown in a digest, not as a card
    _created(),
    CheckConstraint("length(nonce) >= 22", name="nonce_unguessable"),
    CheckConstraint("surface <> 'channel' OR channel_id IS NOT NULL", name="channel_card_has_channel"),
    CheckConstraint("surface NOT IN ('home', 'modal') OR user_id IS NOT NULL", name="own_place_has_user"),
    Index(
        "uq_card_place_channel_card",
        "request_id",
        unique=True,
        postgresql_where=text("surface = 'channel'"),
    ),
    Index(
        "uq_card_place_own",
        "request_id",
        "team_id",
        "user_id",
        "surface",
        unique=True,
        postgresql_where=text("surface IN ('home', 'modal')"),
    ),
    Index("ix_card_place_message", "team_id", "channel_id", "ts"),
    Index("ix_card_place_folded", "team_id", "channel_id", "request_id", postgresql_where=text("folded")),
)

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
    _created(),
    Column("sent_at", Timestamp),
    CheckConstraint("num_nonnulls(request_id, run_id, agent) > 0", name="about_something"),
    CheckConstraint("(kind = 'digest') = (agent IS NOT NULL)", name="digest_of_agent"),
    Index(
        "ix_delivery_pending",
        "team_id",
        "channel_id",
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
    Index("ix_delivery_request", "request_id"),
    Index("ix_delivery_run", "run_id"),
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
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    CheckConstraint("seq >= 1", name="seq_from_one"),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    Index("ix_audit_event_at", "at"),
)

audit_head = Table(
    "audit_head",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

pause = Table(
    "pause",
    metadata,
    Column("scope", Text, primary_key=True),  # an agent's name, or "*"
    Column("by", Text, nullable=False),
    Column("reason", Text),
    _created(),
    CheckConstraint("scope <> ''", name="names_something"),
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
    _created(),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    CheckConstraint("(old_hash IS NULL) = (old_until IS NULL)", name="old_whole"),
    CheckConstraint(
        """scopes <@ '["request", "on_behalf", "decide", "read", "admin"]' AND scopes <> '[]'""",
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
    _created(),
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
    _created(),
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
    _created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    CheckConstraint("octet_length(hash) = 32", name="hash_size"),
    Index("ix_web_session_expires", "expires_at"),
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
    _created(),
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
    _created(),
    Column("sent_at", Timestamp),
    CheckConstraint("(kind = 'webhook') = (webhook_id IS NOT NULL)", name="to_webhook"),
    CheckConstraint("(kind = 'email') = (recipient IS NOT NULL)", name="to_somebody"),
    CheckConstraint("num_nonnulls(request_id, run_id) = 1", name="about_something"),
    Index("ix_notice_due", "next_at", postgresql_where=text("state = 'pending'")),
    Index("ix_notice_dead", "created_at", postgresql_where=text("state = 'dead'")),
    Index("ix_notice_request", "request_id"),
    Index("ix_notice_run", "run_id"),
)
