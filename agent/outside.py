"""The use cases of programs that ask and act outside of this house: they claim what was approved, and report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agent import approvals
from agent.domain.audit import AuditKind
from agent.domain.keys import Principal
from agent.store import chain
from agent.store.batch import Batch
from agent.store.chain import Entry
from agent.store.database import Database


async def note(db: Database, principal: Principal, kind: AuditKind, detail: Mapping[str, Any]) -> None:
    """Record what a key did that no request tells of, in the chain of the key."""
    subject = principal.name
    async with db.transaction() as connection:
        await chain.found(connection, subject)
        head = (await chain.lock_heads(connection, [subject]))[subject]
        batch = Batch()
        chain.append(batch, head, Entry(kind, principal.name, detail))
        await batch.send(connection)


async def withdraw(db: Database, request_id: UUID, principal: Principal) -> bool:
    """The program takes its question back. False when it was decided already. Raises ``NotFound``."""
    words = f"taken back by the program that asked ({principal.name})"
    return await approvals.withdraw(db, request_id, None, words, principal=principal.name)
