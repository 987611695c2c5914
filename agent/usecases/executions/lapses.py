from __future__ import annotations

from collections.abc import Sequence

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind, request_subject
from agent.domain.run import AnswerKind, CallAnswer
from agent.store import audit, calls, outbox
from agent.store.audit import AuditEntry
from agent.store.calls import OverdueCall
from agent.usecases.batches import FailedItems, isolate_failures

UNCLAIMED = "no program claimed it in time"


async def lapse_due(db: Database, *, batch_size: int = 200) -> int:
    """End calls that no program has claimed in time. An approval that its program has read is left in doubt."""
    return await isolate_failures(db, calls.lock_overdue, _lapse, size=batch_size, broken=_BROKEN)


_BROKEN = FailedItems("lapse")


def _answer(call: OverdueCall) -> CallAnswer:
    """What was claimed before, or read by a program that may act, may have had its effect."""
    unbegun = not call.attempted and call.handed_over_at is None
    return CallAnswer(AnswerKind.NOTHING_DONE if unbegun else AnswerKind.ERROR, UNCLAIMED)


async def _lapse(tx: Transaction, due: Sequence[OverdueCall]) -> None:
    asked = [(each, each.request_id, each.destination) for each in due]
    heads = await audit.lock_heads(tx, [request_subject(request) for _, request, _ in asked if request])
    at = next((head.at for head in heads.values()), None)
    calls.lapse(tx, {each.id: _answer(each) for each in due}, at)
    tx.wake(*(Wakeup.call(each.id, each.agent) for each in due if each.run_id is not None))
    for each, request_id, destination in asked:
        if request_id is None or destination is None:
            continue
        read = each.handed_over_at.isoformat() if each.handed_over_at else None
        entry = AuditEntry(AuditKind.APPROVAL_LAPSED, audit.SYSTEM, {"handed_over": read} if read else {})
        audit.append(tx, heads[request_subject(request_id)], entry)
        name = "handed_over" if read else "lapsed"
        line = outbox.request_line(destination, request_id, name, None, at=read)
        outbox.enqueue(tx, [outbox.card(destination, request_id), line])
