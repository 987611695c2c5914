"""The audit log of a run."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from agent.database.transaction import Transaction
from agent.domain.audit import AuditKind, run_subject
from agent.store import audit
from agent.store.audit import AuditEntry


async def record(
    tx: Transaction,
    run_id: UUID,
    kind: AuditKind,
    actor: str,
    detail: Mapping[str, object],
) -> None:
    """Append an event to the run's chain. The run's row is locked by the caller."""
    subject = run_subject(run_id)
    head = (await audit.lock_heads(tx, [subject]))[subject]
    audit.append(tx, head, AuditEntry(kind, actor, detail))
