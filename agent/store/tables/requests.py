"""The tables of requests: revisions, votes, decisions, and places of cards."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Enum, Integer, LargeBinary, SmallInteger, Table, Text, Uuid
from sqlalchemy.dialects.postgresql import JSONB

from agent.domain.request import RequestStatus, Verdict
from agent.store.tables.columns import Timestamp, created, enum_of, metadata
from signoff.values import Risk

request_status = enum_of(RequestStatus, "request_status")
verdict = enum_of(Verdict, "verdict")
risk = enum_of(Risk, "risk")
surface = Enum("channel", "home", "modal", "command", name="surface")

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
    Column("policy", JSONB, nullable=False),
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
    created(),
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
    Column("told_at", Timestamp),
    created(),
)
