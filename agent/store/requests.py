"""Writes about requests: a new question, a new revision, a vote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import text

from agent.database.transaction import Transaction
from agent.domain.facts import FactsSource
from agent.domain.limits import LimitState
from agent.domain.people import Exclusion
from agent.domain.policy import Judgement, Rule, snapshot_digest
from agent.domain.request import Change, Verdict
from agent.store import audit, exclusions
from agent.store.ids import new_id, new_nonce
from agent.store.outbox import Destination
from signoff.canonical import canonical_bytes
from signoff.values import Action, Person


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A question to be put to people, complete.

    ``principal`` and ``client_id`` name it for whoever opens it (``"run"``, and call id with count).
    ``pending_text`` is what the model hears at once when the call goes on in the background.
    """

    rule: Rule
    action: Action
    facts: Mapping[str, Any] | None
    description: str
    rationale: str | None
    context: Mapping[str, Any]
    agent: str
    agent_version: str
    requester: Person | None
    requester_asserted: str
    destination: Destination
    principal: str = "run"
    client_id: str = ""
    source: str = "run"
    run_id: UUID | None = None
    call_id: UUID | None = None
    background: bool = False
    has_pending_hook: bool = False
    editor: Person | None = None
    """Whose edit of an approval that became void this repeats, with what it had changed."""
    changes: tuple[Change, ...] = ()
    signature_digest: bytes | None = None
    """Of the tool's parameters (``Signature.digest``); ``None``: not compared before execution."""
    content: bytes | None = None
    """SHA-256 over all that a program sent; ``None``: over what people are shown."""
    api_key_id: UUID | None = None
    """Of the key, when ``principal`` is one."""
    facts_source: FactsSource | None = None
    limits: tuple[LimitState, ...] = ()
    """The limits over time on its action, as they stand."""
    policy_epoch: int = 0
    """Of the policy that says so."""
    judgement: Judgement | None = None
    rejected_before: UUID | None = None
    """The request in which people rejected the very same action, to be shown to them."""
    executor: str | None = None
    """The key of the program that carries it out, `*` for any; ``None``: the service does, or the program that asks."""


def insert(
    tx: Transaction,
    request_id: UUID,
    new: NewRequest,
    content_digest: bytes,
    ask_no: int,
    excluded: Sequence[Exclusion],
) -> None:
    """The request, its first revision and the place of its card."""
    snapshot = new.rule.snapshot()
    tx.add(
        _INSERT_REQUEST,
        id=request_id,
        principal=new.principal,
        api_key=new.api_key_id,
        client_id=new.client_id,
        content_digest=content_digest,
        source=new.source,
        run_id=new.run_id,
        call_id=new.call_id,
        ask_no=ask_no,
        agent=new.agent,
        agent_version=new.agent_version,
        requester_team=new.requester.team_id if new.requester else None,
        requester_user=new.requester.user_id if new.requester else None,
        asserted=new.requester_asserted,
        checkpoint=new.rule.checkpoint_id,
        policy=Jsonb(snapshot),
        policy_digest=snapshot_digest(snapshot),
        approvers=Jsonb(snapshot["approvers"]),
        risk=new.rule.risk.value,
        approvals=new.rule.approvals_required,
        team=new.destination.team_id,
        channel=new.destination.channel_id,
        seconds=new.rule.timeout.total_seconds(),
        remind_at=new.rule.remind_at[0] if new.rule.remind_at else None,
        excluded=exclusions.as_json(excluded),
        limits=Jsonb([state.shown for state in new.limits]) if new.limits else None,
        epoch=new.policy_epoch,
        rejected=new.rejected_before,
        executor=new.executor,
    )
    tx.add(
        _INSERT_REVISION,
        id=request_id,
        tool=new.action.tool,
        version=new.action.tool_version,
        action=new.action.canonical,
        digest=new.action.digest,
        arguments=Jsonb(dict(new.action.arguments)),
        facts=None if new.facts is None else canonical_bytes(dict(new.facts)),
        facts_source=new.facts_source,
        author=f"agent:{new.agent}",
        description=new.description,
        rationale=new.rationale,
        context=Jsonb(dict(new.context)),
        signature=new.signature_digest,
        editor_team=new.editor.team_id if new.editor else None,
        editor_user=new.editor.user_id if new.editor else None,
        changes=_changes(new.changes) if new.editor else None,
    )
    tx.add(
        _INSERT_PLACE,
        nonce=new_nonce(),
        id=request_id,
        team=new.destination.team_id,
        channel=new.destination.channel_id,
    )


def _changes(changes: Sequence[Change]) -> Jsonb:
    return Jsonb([{"path": each.path, "before": each.before, "after": each.after} for each in changes])


@dataclass(frozen=True, slots=True)
class Revision:
    """A reviewer's edit of the present revision; ``n`` is its own number, ``excluded`` is whom it leaves excluded."""

    request_id: UUID
    n: int
    action: Action
    facts: Mapping[str, Any] | None
    description: str
    editor: Person
    changes: tuple[Change, ...]
    excluded: tuple[Exclusion, ...]
    signature_digest: bytes | None = None
    facts_source: FactsSource | None = None


def revise(tx: Transaction, revision: Revision) -> None:
    """Put the revision in the place of the one before it, whose rationale and context it keeps."""
    # First, so that the trigger on revisions of earlier versions finds the editor excluded and writes nothing.
    tx.add(_MOVE_ON, id=revision.request_id, n=revision.n, excluded=exclusions.as_json(revision.excluded))
    tx.add(
        _INSERT_EDIT,
        id=revision.request_id,
        n=revision.n,
        tool=revision.action.tool,
        version=revision.action.tool_version,
        action=revision.action.canonical,
        digest=revision.action.digest,
        arguments=Jsonb(dict(revision.action.arguments)),
        facts=None if revision.facts is None else canonical_bytes(dict(revision.facts)),
        facts_source=revision.facts_source,
        author=audit.actor(revision.editor),
        description=revision.description,
        signature=revision.signature_digest,
        editor_team=revision.editor.team_id,
        editor_user=revision.editor.user_id,
        changes=_changes(revision.changes),
    )


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote to be recorded; ``supersedes`` is the same person's live vote, if any."""

    request_id: UUID
    revision: int
    person: Person
    verdict: Verdict
    reason: str | None
    path: str
    supersedes: UUID | None


def cast_vote(tx: Transaction, vote: Vote) -> None:
    """Append the vote; an earlier one of the same person no longer counts."""
    vote_id = new_id()
    if vote.supersedes:
        tx.add_rows(_SUPERSEDE, [{"old": vote.supersedes, "new": vote_id}])
    row = {
        "id": vote_id,
        "request_id": vote.request_id,
        "revision": vote.revision,
        "team_id": vote.person.team_id,
        "user_id": vote.person.user_id,
        "verdict": vote.verdict.value,
        "reason": vote.reason,
        "path": vote.path,
    }
    tx.add_rows(_INSERT_VOTE, [row])


def bind_place(tx: Transaction, nonce: str, ts: str) -> None:
    """Which message a card turned out to be, while its ``ts`` was not saved."""
    tx.add_rows(_BIND_PLACE, [{"nonce": nonce, "ts": ts}])


def void(tx: Transaction, request_id: UUID) -> None:
    """Approved, but what was shown has changed before it ran."""
    tx.add(_VOID, id=request_id)


_INSERT_REQUEST = text("""
INSERT INTO approval_request (
    id, principal, api_key_id, client_id, content_digest, source, run_id, call_id, ask_no, agent, agent_version,
    requester_team_id, requester_user_id, requester_asserted, checkpoint_id, policy, policy_digest,
    approvers, risk, approvals_required, team_id, channel_id, excluded, limits, created_at, expires_at,
    remind_next, policy_epoch, rejected_before, executor)
SELECT :id, :principal, CAST(:api_key AS uuid), :client_id, :content_digest, :source, :run_id,
       :call_id, :ask_no, :agent, :agent_version, :requester_team, :requester_user, :asserted,
       :checkpoint, :policy, :policy_digest, :approvers, :risk, :approvals, :team, :channel,
       :excluded, CAST(:limits AS jsonb), clock.now, clock.now + make_interval(secs => :seconds),
       clock.now + make_interval(secs => :seconds * CAST(:remind_at AS float)), :epoch, CAST(:rejected AS uuid),
       :executor
FROM (SELECT clock_timestamp() AS now) AS clock
""")
_INSERT_REVISION = text("""
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, arguments, facts, author,
                              description, rationale, context, editor_team_id, editor_user_id, changes,
                              signature_digest, facts_source)
VALUES (:id, 1, :tool, :version, :action, :digest, :arguments, :facts, :author,
        :description, :rationale, :context, :editor_team, :editor_user, :changes,
        :signature, :facts_source)
""")
_INSERT_EDIT = text("""
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, arguments, facts, author,
                              description, rationale, context, editor_team_id, editor_user_id, changes,
                              signature_digest, facts_source)
SELECT request_id, :n, :tool, :version, :action, :digest, :arguments, :facts, :author,
       :description, rationale, context, :editor_team, :editor_user, :changes, :signature,
       :facts_source
FROM request_revision WHERE request_id = :id AND n = :n - 1
""")
_MOVE_ON = text("""
UPDATE approval_request SET revision = :n, excluded = :excluded WHERE id = :id AND status = 'waiting'
""")
_INSERT_PLACE = text("""
INSERT INTO card_place (nonce, request_id, surface, team_id, channel_id)
VALUES (:nonce, :id, 'channel', :team, :channel)
""")
_BIND_PLACE = text("""
UPDATE card_place AS p SET ts = e.ts
FROM (SELECT * FROM json_to_recordset(:rows) AS t (nonce text, ts text) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE p.nonce = e.nonce AND p.ts IS NULL
""")
_VOID = text("UPDATE approval_request SET voided_at = clock_timestamp() WHERE id = :id")
_SUPERSEDE = text("""
UPDATE vote AS v SET superseded_by = e.new
FROM (SELECT * FROM json_to_recordset(:rows) AS t (old uuid, new uuid) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE v.id = e.old AND v.superseded_by IS NULL
""")
_INSERT_VOTE = text("""
INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, reason, path)
SELECT * FROM json_to_recordset(:rows) AS t (
    id uuid, request_id uuid, revision int, team_id text, user_id text, verdict verdict, reason text, path text)
""")
