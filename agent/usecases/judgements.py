"""Evaluations, read again for a replay, or recorded where there is no request."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import datetime

from agent.database.pools import Database
from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.judgement import Judgement
from agent.domain.pause import check_not_paused
from agent.domain.policy import check_epoch
from agent.domain.replay import RecordedJudgement
from agent.store import audit, judgements, pause
from agent.store import policy as policies


async def recorded(db: Database, since: datetime) -> AsyncIterator[list[RecordedJudgement | None]]:
    """Evaluations, oldest first, in pages; ``None``: erased."""
    async with db.connection() as connection:
        async for page in judgements.recorded(connection, since):
            yield page


async def record(
    db: Database,
    principal: Principal,
    kind: AuditKind,
    detail: Mapping[str, object],
    judged: Judgement,
    *,
    agent: str | None = None,
) -> None:
    """The key's audit chain records evaluations without a request.

    ``agent``: its action may begin once this returns. Raises ``OutdatedPolicy``, and then ``AgentPaused``.
    """
    subject = principal.name
    async with db.transaction() as tx:
        check_epoch(judged.epoch, await policies.lock_epoch(tx))
        if agent is not None:
            check_not_paused(await pause.active_pauses(tx), agent)
        await audit.create_head(tx, subject)
        await audit.record(tx, subject, kind, principal.name, {**detail, "policy": judged.epoch})
        judgements.insert(tx, judged, principal=subject)
