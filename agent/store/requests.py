"""Writes about requests: questions, revisions, votes. The caller has locked the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import text

from agent.database.transaction import Transaction
from agent.domain.answers import AnswerForm, AnswerValue
from agent.domain.consent_terms import ConsentTerms
from agent.domain.facts import FactsSource
from agent.domain.judgement import Judgement
from agent.domain.limits import LimitState
from agent.domain.people import Exclusion
from agent.domain.request import Verdict
from agent.domain.request_view import Change
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor
from agent.store import audit, exclusions
from agent.store.exclusions import Lineage, ProgramLineage
from agent.store.ids import new_id, new_nonce
from agent.store.outbox import Destination
from agent.store.rows import columns
from signoff.canonical import canonical_bytes
from signoff.values import Action, Person


@dataclass(frozen=True, slots=True)
class NewRequest:
    """A complete question for people.

    ``principal`` and ``client_id`` identify it for the opener (for a run ``"run"``, and call id with count).
    ``pending_text`` is the model's immediate answer if the call goes on in the background.
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
    """Editor of the void approval that this repeats, with that edit's changes."""
    changes: tuple[Change, ...] = ()
    signature_digest: bytes | None = None
    """Of the tool's parameters; ``None``: not compared before execution."""
    content: bytes | None = None
    """SHA-256 of everything a program sent; ``None``: of what people are shown."""
    api_key_id: UUID | None = None
    """Set if ``principal`` is a key."""
    facts_source: FactsSource | None = None
    limits: tuple[LimitState, ...] = ()
    policy_epoch: int = 0
    judgement: Judgement | None = None
    rejected_before: UUID | None = None
    """The request that rejected the same action."""
    executor: CallExecutor = CallExecutor.HERE
    executor_key: str | None = None
    """The only one that may execute what a run proposes."""
    session: str | None = None
    """The program's own name for what belongs together."""
    only_session: bool = False
    """The key is trusted to tell its sessions apart."""
    answer_form: AnswerForm | None = None
    """What is wanted besides yes or no."""
    gathered_in: str | None = None
    """The name under which it is gathered with others of its batch, instead of a card (`agent.domain.groups`)."""

    @property
    def lineage(self) -> Lineage:
        """Whose words shaped the question."""
        if self.run_id is not None and self.call_id is not None:
            return self.call_id
        return ProgramLineage(
            self.principal, self.api_key_id, self.agent, self.action.tool, self.session, self.only_session
        )


def insert(
    tx: Transaction,
    request_id: UUID,
    new: NewRequest,
    content_digest: bytes | None,
    ask_no: int,
    terms: ConsentTerms,
    at: datetime,
) -> None:
    """Includes the first revision, the card's place, and what a program proposes. ``at`` is database time."""
    rule = new.rule
    row = columns(
        new,
        id=request_id,
        call_id=new.call_id or request_id,
        is_proposed=new.call_id is None,
        content_digest=content_digest,
        executor=new.executor.value,
        ask_no=ask_no,
        checkpoint=rule.checkpoint_id,
        rule=Jsonb(rule.snapshot()),
        rule_digest=rule.digest,
        approvers=Jsonb(list(terms.approvers)),
        risk=rule.risk.value,
        approvals=terms.approvals_required,
        at=at,
        expires_at=terms.expires_at,
        remind_next=at + rule.timeout * rule.remind_at[0] if rule.remind_at else None,
        excluded=exclusions.as_json(terms.excluded),
        answer_form=Jsonb(new.answer_form.stored_form) if new.answer_form else None,
        limits=Jsonb([state.shown for state in new.limits]) if new.limits else None,
        author=f"agent:{new.agent}",
        context=Jsonb(dict(new.context)),
        changes=_changes(new.changes) if new.editor else None,
        **_content(new.action, new.facts),
    )
    tx.add(_INSERT_REQUEST, **row)
    tx.add(_INSERT_REVISION, **row)
    tx.add(_INSERT_PLACE, **row, nonce=new_nonce())


def _content(action: Action, facts: Mapping[str, Any] | None) -> dict[str, object]:
    return {
        "tool": action.tool,
        "version": action.tool_version,
        "action": action.canonical,
        "digest": action.digest,
        "arguments": Jsonb(dict(action.arguments)),
        "facts": None if facts is None else canonical_bytes(dict(facts)),
    }


def _changes(changes: Sequence[Change]) -> Jsonb:
    return Jsonb([{"path": each.path, "before": each.before, "after": each.after} for each in changes])


@dataclass(frozen=True, slots=True)
class Revision:
    """A reviewer's edit: revision ``n``; ``excluded`` after it."""

    request_id: UUID
    n: int
    action: Action
    facts: Mapping[str, Any] | None
    description: str
    editor: Person
    changes: tuple[Change, ...]
    excluded: tuple[Exclusion, ...]
    at: datetime
    signature_digest: bytes | None = None
    facts_source: FactsSource | None = None


def revise(tx: Transaction, revision: Revision) -> None:
    """The rationale and context stay."""
    tx.add(_ADVANCE, id=revision.request_id, n=revision.n, excluded=exclusions.as_json(revision.excluded))
    author, content = audit.actor(revision.editor), _content(revision.action, revision.facts)
    tx.add(_INSERT_EDIT, **columns(revision, author=author, changes=_changes(revision.changes), **content))


@dataclass(frozen=True, slots=True)
class Vote:
    """``supersedes``: the person's live vote."""

    request_id: UUID
    revision: int
    person: Person
    verdict: Verdict
    reason: str | None
    path: str
    supersedes: UUID | None
    at: datetime
    answer: AnswerValue | None = None
    together: UUID | None = None
    """The form of several requests that cast it."""


def cast_vote(tx: Transaction, vote: Vote) -> None:
    """The person's earlier vote no longer counts."""
    vote_id = new_id()
    if vote.supersedes:
        tx.add_rows(_SUPERSEDE, [{"old": vote.supersedes, "new": vote_id}])
    tx.add_rows(_INSERT_VOTE, [columns(vote, id=vote_id, answer=None)])
    if vote.answer is not None:
        tx.add_rows(
            _INSERT_ANSWER,
            [
                {
                    "vote_id": vote_id,
                    "request_id": vote.request_id,
                    "value": vote.answer.canonical.decode(),
                    "own_words": vote.answer.own_words,
                    "at": vote.at,
                }
            ],
        )


def bind_place(tx: Transaction, nonce: str, ts: str) -> None:
    """Store a card's ``ts``, if not saved."""
    tx.add_rows(_BIND_PLACE, [{"nonce": nonce, "ts": ts}])


def void(tx: Transaction, request_id: UUID, at: datetime) -> None:
    """Note that a request's approval no longer counts; its decision and votes stay."""
    tx.add(_VOID, id=request_id, at=at)


# Of two first requests under a rule, one waits for the COMMIT of the other, which waits for nothing that the one
# has locked: runs, calls and questions were locked before, limits and messages come after.
_INSERT_REQUEST = text("""
WITH opened_under AS (
    INSERT INTO rule (digest, content, created_at) VALUES (:rule_digest, :rule, :at) ON CONFLICT DO NOTHING
), proposed AS (
    INSERT INTO tool_call (id, principal, client_id, content_digest, session, agent, tool, executor, state, blocking,
                           ask_no, announced_at, created_at)
    SELECT :call_id, :principal, :client_id, :content_digest, :session, :agent, :tool, :executor, 'asked', false,
           CAST(:ask_no AS smallint), :at, :at
    WHERE :is_proposed
)
INSERT INTO approval_request (
    id, principal, api_key_id, client_id, source, run_id, call_id, ask_no, agent, agent_version,
    requester_team_id, requester_user_id, requester_asserted, checkpoint_id, rule_digest,
    approvers, risk, approvals_required, team_id, channel_id, excluded, limits, created_at, expires_at,
    remind_next, policy_epoch, rejected_before, answer_form)
VALUES (:id, :principal, CAST(:api_key_id AS uuid), :client_id, :source, :run_id,
        :call_id, :ask_no, :agent, :agent_version, :requester_team_id, :requester_user_id, :requester_asserted,
        :checkpoint, :rule_digest, :approvers, :risk, :approvals, :team_id, :channel_id,
        :excluded, CAST(:limits AS jsonb), :at, :expires_at, :remind_next, :policy_epoch,
        CAST(:rejected_before AS uuid), CAST(:answer_form AS jsonb))
""")
_INSERT_REVISION = text("""
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, arguments, facts, author,
                              description, rationale, context, editor_team_id, editor_user_id, changes,
                              signature_digest, facts_source, created_at)
VALUES (:id, 1, :tool, :version, :action, :digest, :arguments, :facts, :author,
        :description, :rationale, :context, :editor_team_id, :editor_user_id, :changes,
        :signature_digest, :facts_source, :at)
""")
_INSERT_EDIT = text("""
INSERT INTO request_revision (request_id, n, tool, tool_version, action, digest, arguments, facts, author,
                              description, rationale, context, editor_team_id, editor_user_id, changes,
                              signature_digest, facts_source, created_at)
SELECT request_id, :n, :tool, :version, :action, :digest, :arguments, :facts, :author,
       :description, rationale, context, :editor_team_id, :editor_user_id, :changes, :signature_digest,
       :facts_source, CAST(:at AS timestamptz)
FROM request_revision WHERE request_id = :request_id AND n = :n - 1
""")
_ADVANCE = text("""
UPDATE approval_request SET revision = :n, excluded = :excluded WHERE id = :id AND status = 'waiting'
""")
_INSERT_PLACE = text("""
INSERT INTO card_place (nonce, request_id, surface, team_id, channel_id, folded, digest)
VALUES (:nonce, :id, 'channel', :team_id, :channel_id,
        CAST(:gathered_in AS text) IS NOT NULL, CAST(:gathered_in AS text))
""")
_BIND_PLACE = text("""
UPDATE card_place AS p SET ts = e.ts
FROM (SELECT * FROM json_to_recordset(:rows) AS t (nonce text, ts text) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE p.nonce = e.nonce AND p.ts IS NULL
""")
_VOID = text("UPDATE approval_request SET voided_at = :at WHERE id = :id")
_SUPERSEDE = text("""
UPDATE vote AS v SET superseded_by = e.new
FROM (SELECT * FROM json_to_recordset(:rows) AS t (old uuid, new uuid) LIMIT (SELECT CAST(:many AS int))) AS e
WHERE v.id = e.old AND v.superseded_by IS NULL
""")
_INSERT_VOTE = text("""
INSERT INTO vote (id, request_id, revision, team_id, user_id, verdict, reason, path, together, created_at)
SELECT * FROM json_to_recordset(:rows) AS t (
    id uuid, request_id uuid, revision int, person_team_id text, person_user_id text, verdict verdict, reason text,
    path text, together uuid, at timestamptz)
""")
_INSERT_ANSWER = text("""
INSERT INTO answer (vote_id, request_id, value, digest, own_words, created_at)
SELECT t.vote_id, t.request_id, convert_to(t.value, 'UTF8'), sha256(convert_to(t.value, 'UTF8')), t.own_words, t.at
FROM json_to_recordset(:rows) AS t (vote_id uuid, request_id uuid, value text, own_words boolean, at timestamptz)
""")
