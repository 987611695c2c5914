"""Requests: revisions, votes, decisions, and where their cards are."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
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
    Column("voided_at", Timestamp),  # approved, but what was shown changed, or too late: asked again
    created(),
    Column("expires_at", Timestamp, nullable=False),
    Column("decided_at", Timestamp),
    Column("reminded", SmallInteger, nullable=False, server_default="0"),  # in the present window
    Column("remind_next", Timestamp),
    Column("escalated_at", Timestamp),
    Column("lapse_at", Timestamp),  # an approval for an executor outside can be claimed until then
    Column("lapsed_at", Timestamp),
    Column("handed_over_at", Timestamp),  # its asker has read that it is approved
    Column("excluded", JSONB, nullable=False),  # whose approval does not count: [{team, user, why}, …]
    Column("limits", JSONB),  # how the limits on its action stood when it was opened: [{name, used, …}, …]
    Column("policy_epoch", Integer),  # of the policy that it was judged by
    Column("rejected_before", Uuid),  # the request in which people rejected the very same action
    UniqueConstraint("principal", "client_id"),
    UniqueConstraint("call_id", "ask_no"),
    CheckConstraint("expires_at > created_at", name="expires_after_created"),
    CheckConstraint("approvals_required >= 1", name="at_least_one_approval"),
    CheckConstraint("(status = 'waiting') = (decided_at IS NULL)", name="decided_with_time"),
    CheckConstraint("voided_at IS NULL OR status = 'approved'", name="only_approved_voided"),
    CheckConstraint("octet_length(policy_digest) = 32", name="policy_digest_size"),
    CheckConstraint("jsonb_typeof(approvers) = 'array' AND approvers <> '[]'", name="somebody_may_decide"),
    CheckConstraint("jsonb_typeof(excluded) = 'array'", name="excluded_is_list"),
    CheckConstraint("jsonb_typeof(limits) = 'array'", name="limits_is_list"),
    CheckConstraint("reminded >= 0", name="reminded_not_negative"),
    CheckConstraint(
        "num_nonnulls(lapse_at, lapsed_at) = 0 OR (status = 'approved' AND call_id IS NULL)",
        name="only_approved_lapses",
    ),
    CheckConstraint("num_nonnulls(lapse_at, lapsed_at) <= 1", name="lapses_once"),
    CheckConstraint(
        "handed_over_at IS NULL OR (status = 'approved' AND call_id IS NULL)",
        name="only_approved_handed_over",
    ),
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
    *(
        Index(
            f"ix_approval_request_by_{order}",
            "team_id",
            "approvers",
            "channel_id",
            order,
            "id",
            postgresql_where=text("status = 'waiting'"),
        )
        for order in ("expires_at", "risk")  # the other orders of what waits for an audience
    ),
    Index("ix_approval_request_by_agent", "agent", "status", "id"),
    Index("ix_approval_request_run", "run_id"),
    Index("ix_approval_request_team", "team_id", "created_at", "id"),
    Index("ix_approval_request_principal", "principal", "created_at", "id"),
    Index(
        "ix_approval_request_key_waiting",
        "principal",
        postgresql_where=text("status = 'waiting' AND call_id IS NULL"),
    ),
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
    Column("facts_source", Text),  # "program" or "signoff"; None: the tool itself, or nobody
    Column("author", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("rationale", Text),
    Column("context", JSONB, nullable=False),
    Column("editor_team_id", Text),  # the reviewer whose edit made it
    Column("editor_user_id", Text),
    Column("changes", JSONB(none_as_null=True)),  # what the edit changed: [{path, before, after}, …]
    created(),
    Column("erased_at", Timestamp),  # action, arguments, facts and context are gone; the digest stays
    Column("signature_digest", LargeBinary),  # of the tool's parameters then; None: not compared
    CheckConstraint("erased_at IS NOT NULL OR digest = sha256(action)", name="digest_of_action"),
    CheckConstraint(
        "erased_at IS NULL OR (octet_length(action) = 0 AND num_nonnulls(arguments, facts, rationale) = 0)",
        name="erased_whole",
    ),
    CheckConstraint("octet_length(signature_digest) = 32", name="signature_digest_size"),
    CheckConstraint("facts_source IN ('program', 'signoff')", name="known_facts_source"),
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
    created(),
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
    Index("ix_decision_rejected", "digest", "decided_at", postgresql_where=text("outcome = 'rejected'")),
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
    created(),
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
