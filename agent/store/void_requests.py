from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction
from agent.domain.people import Exclusion
from agent.domain.rules import Rule
from agent.store import exclusions
from agent.store.outbox import Destination
from agent.store.requests import NewRequest
from agent.store.rows import person
from agent.store.views.requests import stored_changes
from signoff.values import Action


async def void(tx: Transaction, request_id: UUID) -> tuple[NewRequest, tuple[Exclusion, ...]]:
    """Returns the void request's question, to be asked again under the same client id.

    Also returns whose approval did not count, earlier editors included: their values may still be in the action.
    """
    row = (await tx.execute(_QUESTION, {"id": request_id})).one()
    # At once: the request that asks again takes over this client id.
    await tx.execute(_VOID, {"id": request_id})
    question = NewRequest(
        rule=Rule.from_snapshot(row.policy),
        action=Action.from_canonical(row.action),
        facts=None,
        description=row.description,
        rationale=row.rationale,
        context=row.context,
        agent=row.agent,
        agent_version=row.agent_version,
        requester=person(row.requester_team_id, row.requester_user_id),
        requester_asserted=row.requester_asserted,
        destination=Destination(row.team_id, row.channel_id),
        principal=row.principal,
        client_id=row.client_id,
        source=row.source,
        editor=person(row.editor_team_id, row.editor_user_id),
        changes=stored_changes(row.changes),
        content=row.content,
        api_key_id=row.api_key_id,
        session=row.session,
    )
    return question, exclusions.from_json(row.excluded)


async def find_successor(connection: Connection, principal: str, client_id: str) -> UUID | None:
    key = {"principal": principal, "client": client_id.rpartition("#")[0]}
    found: UUID | None = (await connection.execute(_NAMED, key)).scalar_one_or_none()
    return found


_QUESTION = text("""
SELECT r.policy, r.team_id, r.channel_id, r.principal, r.client_id, r.source, r.content_digest AS content, r.api_key_id,
       r.session, r.agent, r.agent_version, r.requester_team_id, r.requester_user_id, r.requester_asserted, r.excluded,
       v.action, v.description, v.rationale, v.context, v.editor_team_id, v.editor_user_id, v.changes
FROM approval_request AS r JOIN request_revision AS v ON v.request_id = r.id AND v.n = r.revision
WHERE r.id = :id
""")
# It also lapses: nothing can be claimed by it any more.
_VOID = text("""
UPDATE approval_request
SET voided_at = clock_timestamp(), lapse_at = NULL, lapsed_at = clock_timestamp(),
    client_id = client_id || '#' || ask_no
WHERE id = :id
""")
_NAMED = text("SELECT id FROM approval_request WHERE principal = :principal AND client_id = :client")
