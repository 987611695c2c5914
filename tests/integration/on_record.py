"""Put terms of consent on record that a test changed, as if a request had been opened with them."""

from __future__ import annotations

import json
from uuid import UUID

from sqlalchemy import text

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import event_hash, genesis
from agent.store import audit, consent_terms

_WITHOUT_CONSENT = text(
    "SELECT id FROM approval_request WHERE status <> 'approved' ORDER BY id FOR NO KEY UPDATE"
)
_CHAIN = text("SELECT seq, at, actor, event, detail FROM audit_event WHERE subject = :subject ORDER BY seq")
_WRITE = text("""
UPDATE audit_event SET detail = CAST(:detail AS jsonb), hash = :hash
WHERE subject = :subject AND seq = :seq
""")
_HEAD = text("UPDATE audit_head SET hash = :hash WHERE subject = :subject")


async def put_terms_on_record(db: Database) -> None:
    """Write the chains of all requests but the approved ones anew whose rows have other terms."""
    async with db.transaction() as tx:
        await tx.execute(text("SET LOCAL ROLE NONE"))
        ids = list((await tx.execute(_WITHOUT_CONSENT)).scalars())
        await audit.lock_heads(tx, [f"request:{each}" for each in ids])
        await tx.execute(text("ALTER TABLE audit_event DISABLE TRIGGER audit_event_is_final"))
        for row in await tx.execute(consent_terms.TERMS, {"ids": ids}):
            if (now := consent_terms.stored(row).digest) != row.terms_recorded:
                await _write_anew(tx, row.request_id, {row.terms_recorded: now})
        await tx.execute(text("ALTER TABLE audit_event ENABLE ALWAYS TRIGGER audit_event_is_final"))


async def _write_anew(tx: Transaction, request_id: UUID, terms: dict[str, str]) -> None:
    subject = f"request:{request_id}"
    previous = genesis(subject)
    for event in (await tx.execute(_CHAIN, {"subject": subject})).all():
        detail = dict(event.detail)
        if "terms" in detail:
            detail["terms"] = terms.get(detail["terms"], detail["terms"])
        previous = event_hash(previous, subject, event.seq, event.at, event.actor, event.event, detail)
        written = {"detail": json.dumps(detail), "hash": previous}
        await tx.execute(_WRITE, {"subject": subject, "seq": event.seq, **written})
    await tx.execute(_HEAD, {"subject": subject, "hash": previous})
