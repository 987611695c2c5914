"""Void a program's request, and open the one that asks again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.policy import Rule
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.store.rows import row_as
from agent.store.views.requests import stored_changes
from signoff.values import Action, Person


@dataclass(frozen=True, slots=True)
class _Question:
    policy: Mapping[str, Any]
    destination: Destination
    principal: str
    client_id: str
    source: str
    content: bytes
    api_key_id: UUID | None
    agent: str
    agent_version: str
    requester: Person | None
    requester_asserted: str
    action: bytes
    description: str
    rationale: str | None
    context: Mapping[str, Any]
    editor: Person | None
    changes: Any


async def void(tx: Transaction, request_id: UUID) -> NewRequest:
    """Make a program's approved request void; returns its question, to be asked again under the name that is free
    now.
    """
    question = row_as(_Question, (await tx.execute(_QUESTION, {"id": request_id})).one())
    # At once: the request that asks again is written under the name that this one gives up.
    await tx.execute(_VOID, {"id": request_id})
    return NewRequest(
        rule=Rule.from_snapshot(dict(question.policy)),
        action=Action.from_canonical(question.action),
        facts=None,
        description=question.description,
        rationale=question.rationale,
        context=question.context,
        agent=question.agent,
        agent_version=question.agent_version,
        requester=question.requester,
        requester_asserted=question.requester_asserted,
        destination=question.destination,
        principal=question.principal,
        client_id=question.client_id,
        source=question.source,
        editor=question.editor,
        changes=stored_changes(question.changes),
        content=question.content,
        api_key_id=question.api_key_id,
    )


async def find_successor(connection: Connection, principal: str, client_id: str) -> UUID | None:
    """The request that asks again in the place of a void one, which bears this name and number."""
    key = {"principal": principal, "client": client_id.rpartition("#")[0]}
    found: UUID | None = (await connection.execute(_NAMED, key)).scalar_one_or_none()
    return found


_QUESTION = text("""
SELECT r.policy, r.team_id, r.channel_id, r.principal, r.client_id, r.source, r.content_digest AS content, r.api_key_id,
       r.agent, r.agent_version, r.requester_team_id, r.requester_user_id, r.requester_asserted,
       v.action, v.description, v.rationale, v.context, v.editor_team_id, v.editor_user_id, v.changes
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.id = :id
""")
# It lapses as well: a process of a version that knows nothing of void requests of programs refuses its claim by that.
_VOID = text("""
UPDATE approval_request
SET voided_at = clock_timestamp(), lapse_at = NULL, lapsed_at = clock_timestamp(),
    client_id = client_id || '#' || ask_no
WHERE id = :id
""")
_NAMED = text("SELECT id FROM approval_request WHERE principal = :principal AND client_id = :client")
