"""The events of a request in the audit log."""

from __future__ import annotations

from uuid import UUID

from agent.database.transaction import Connection
from agent.domain.audit import AuditEvent, request_subject
from agent.store import audit


async def request_events(connection: Connection, request_id: UUID) -> list[AuditEvent]:
    """Details hold ids and digests, never arguments."""
    return await audit.events(connection, request_subject(request_id))
