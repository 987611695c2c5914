"""Policy evaluations and their inputs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row, text

from agent.database.transaction import Connection, Transaction, fetch
from agent.domain.facts import Facts
from agent.domain.judgement import Inputs, Judgement, ToolTraits
from agent.domain.observation import Observation
from agent.domain.replay import RecordedJudgement
from agent.store.ids import lowest_after, lowest_since, new_id
from signoff.canonical import canonical_bytes, parse_checked
from signoff.values import Action, Risk

PAGE = 1000


def insert(
    tx: Transaction,
    judgement: Judgement,
    *,
    call_id: UUID | None = None,
    request_id: UUID | None = None,
    revision: int | None = None,
    principal: str | None = None,
    grant_id: UUID | None = None,
) -> None:
    """The content of a request's evaluation stays with its revision (default: first).

    ``grant_id``: the grant that covers the action.
    """
    given = judgement.inputs
    if given is None:
        return
    ruled, ruled_by = judgement.ruled or (None, None)
    kept, tool = request_id is None, given.tool
    traits = {"version": tool.version, "requires_approval": tool.requires_approval}
    traits |= {"read_only": tool.read_only, "risk": None if tool.risk is None else tool.risk.value}
    row = {
        "id": new_id(),
        "policy_epoch": judgement.epoch,
        "call_id": call_id,
        "request_id": request_id,
        "revision": revision,
        "grant_id": grant_id,
        "principal": principal,
        "agent": given.agent,
        "requester": given.requester,
        "tool": given.action.tool,
        "traits": traits,
        "action": given.action.canonical if kept else None,
        "facts": canonical_bytes(dict(given.facts)) if kept and given.facts is not None else None,
        "facts_failed": given.facts_failed,
        "verdict": judgement.verdict,
        "checkpoint_id": judgement.checkpoint_id,
        "because": judgement.because,
        "ruled": ruled,
        "ruled_by": ruled_by,
        "observed": _observed(judgement.observed),
    }
    tx.add_rows(_INSERT, [row])


def _observed(observations: Sequence[Observation]) -> list[dict[str, Any]] | None:
    return [
        {
            "checkpoint": each.checkpoint_id,
            "version": each.version,
            "until": each.until,
            "applies": each.applies,
            "verdict": each.verdict,
        }
        for each in observations
    ] or None


async def recorded(
    connection: Connection, since: datetime, *, page: int = PAGE
) -> AsyncIterator[list[RecordedJudgement | None]]:
    """Evaluations since this database time, in pages; ``None``: erased."""
    after = lowest_since(since)
    while rows := await fetch(connection, _RECORDED, after=after, since=since, limit=page):
        yield [_recorded(row) for row in rows]
        after = rows[-1].id


async def facts_that_let_run(connection: Connection, call_id: UUID) -> Facts:
    """The facts with which policy let the call run; failed if they are erased."""
    rows = await fetch(connection, _LET_RUN, call=call_id, after=lowest_after(call_id))
    if not rows:
        return Facts(failed=True)
    facts = rows[0].facts
    return Facts(None if facts is None else parse_checked(bytes(facts)), failed=rows[0].failed)


def _recorded(row: Row[Any]) -> RecordedJudgement | None:
    if not row.action:
        return None
    traits = ToolTraits(
        row.tool,
        row.traits["version"],
        requires_approval=row.traits["requires_approval"],
        risk=None if row.traits["risk"] is None else Risk(row.traits["risk"]),
        read_only=row.traits["read_only"],
    )
    facts = None if row.facts is None else parse_checked(bytes(row.facts))
    action = Action.from_checked(bytes(row.action))
    return RecordedJudgement(
        row.id,
        row.created_at,
        Inputs(traits, action, facts, row.agent, row.requester, row.facts_failed),
        row.verdict,
        row.checkpoint_id,
        row.request_id,
        row.outcome,
        row.policy_epoch or 0,
    )


# The database's clock decides whether a checkpoint is observed.
_INSERT = text("""
INSERT INTO judgement (id, policy_epoch, call_id, request_id, principal, agent, requester, tool, traits, action, facts,
                       facts_failed, verdict, checkpoint_id, because, revision, grant_id, ruled, ruled_by, observed)
SELECT id, policy_epoch, call_id, request_id, principal, agent, requester, tool, traits, action, facts,
       facts_failed, verdict, checkpoint_id, because, revision, grant_id, ruled, ruled_by,
       (SELECT jsonb_agg(o) FROM jsonb_array_elements(t.observed) AS o
        WHERE CAST(o ->> 'until' AS timestamptz) > clock_timestamp())
FROM json_to_recordset(:rows) AS t (
    id uuid, policy_epoch int, call_id uuid, request_id uuid, principal text, agent text, requester text, tool text,
    traits jsonb, action bytea, facts bytea, facts_failed boolean, verdict text, checkpoint_id text, because text,
    revision int, grant_id uuid, ruled text, ruled_by text, observed jsonb)
LIMIT (SELECT CAST(:many AS int))
""")
# Reads the primary key from the call's creation on, because `call_id` has no index.
_LET_RUN = text("""
SELECT facts, facts_failed OR action IS NULL AS failed FROM judgement
WHERE call_id = :call AND id > :after AND verdict = 'run' ORDER BY id LIMIT 1
""")
# OFFSET 0 keeps PostgreSQL, which does not know the page's size, from reading whole tables.
_RECORDED = text("""
SELECT j.id, j.created_at, j.policy_epoch, j.agent, j.requester, j.tool, j.traits, j.facts_failed,
       coalesce(j.ruled, j.verdict) AS verdict,
       CASE WHEN j.ruled IS NULL THEN j.checkpoint_id ELSE j.ruled_by END AS checkpoint_id,
       j.request_id, coalesce(j.action, v.action) AS action, coalesce(j.facts, v.facts) AS facts,
       CASE WHEN j.grant_id IS NULL THEN r.status::text ELSE 'allowed in advance' END AS outcome
FROM (SELECT * FROM judgement WHERE id > :after AND created_at >= :since ORDER BY id LIMIT :limit) AS j
LEFT JOIN LATERAL (SELECT status FROM approval_request WHERE id = j.request_id OFFSET 0) AS r ON true
LEFT JOIN LATERAL (SELECT action, facts FROM request_revision
                   WHERE request_id = j.request_id AND n = coalesce(j.revision, 1) OFFSET 0) AS v ON true
ORDER BY j.id
""")
