"""Writes about executions: attempts, their outcomes, late results, and what people settled."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Literal
from uuid import UUID

import structlog

from agent.database.transaction import Transaction
from agent.domain.request import ExecutionStatus
from agent.metrics import EXECUTIONS
from signoff.values import Person

log = structlog.get_logger(__name__)


def insert(
    tx: Transaction,
    execution_id: UUID,
    *,
    call_id: UUID,
    request_id: UUID | None,
    attempt: int,
    digest: bytes,
    idempotent: bool,
    worker: str,
    lease_seconds: float,
) -> None:
    """Claim the attempt; the database refuses a second open one."""
    tx.after_commit(
        partial(
            log.info,
            "execution begins",
            action="execution.started",
            execution_id=str(execution_id),
            call_id=str(call_id),
            request_id=str(request_id) if request_id else None,
            attempt=attempt,
        )
    )
    tx.add(
        _BEGIN,
        id=execution_id,
        call=call_id,
        request=request_id,
        attempt=attempt,
        digest=digest,
        idempotent=idempotent,
        worker=worker,
        seconds=lease_seconds,
    )


def finish(tx: Transaction, execution_id: UUID, status: ExecutionStatus, outcome: str) -> None:
    """Write the outcome of an open attempt: the result, or what went wrong."""
    succeeded = status is ExecutionStatus.SUCCEEDED
    tx.after_commit(EXECUTIONS.labels(status.value).inc)
    tx.after_commit(
        partial(
            log.info,
            "execution has an outcome",
            action=f"execution.{status.value}",
            execution_id=str(execution_id),
        )
    )
    tx.add(
        _FINISH,
        id=execution_id,
        status=status.value,
        result=outcome if succeeded else None,
        error=None if succeeded else outcome,
    )


def record_late(tx: Transaction, execution_id: UUID, outcome: str) -> None:
    """A result that arrived after the outcome was written; the first one is kept."""
    tx.add(_LATE, id=execution_id, outcome=outcome)


def settle(
    tx: Transaction, execution_id: UUID, verdict: Literal["retry", "done"], by: Person, note: str | None
) -> None:
    """A person's word on an execution in doubt; the second word fails on the key."""
    tx.add(_SETTLE, execution=execution_id, verdict=verdict, team=by.team_id, user=by.user_id, note=note)


def renew_leases(tx: Transaction, execution_ids: Collection[UUID], worker: str, lease_seconds: float) -> None:
    """These attempts are alive."""
    tx.add(_BEAT, ids=list(execution_ids), worker=worker, seconds=lease_seconds)


_BEGIN = """
INSERT INTO execution (id, call_id, request_id, attempt, digest, idempotent, worker, lease_until)
VALUES (%(id)s, %(call)s, %(request)s, %(attempt)s, %(digest)s, %(idempotent)s, %(worker)s,
        clock_timestamp() + make_interval(secs => %(seconds)s))
"""
_FINISH = """
UPDATE execution SET status = %(status)s, result = %(result)s, error = %(error)s, finished_at = clock_timestamp()
WHERE id = %(id)s AND status = 'claimed'
"""
_LATE = "UPDATE execution SET late_result = %(outcome)s WHERE id = %(id)s AND late_result IS NULL"
_SETTLE = """
INSERT INTO settlement (execution_id, verdict, team_id, user_id, note)
VALUES (%(execution)s, %(verdict)s, %(team)s, %(user)s, %(note)s)
"""
_BEAT = """
UPDATE execution SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE id = ANY(%(ids)s) AND worker = %(worker)s AND status = 'claimed'
"""
