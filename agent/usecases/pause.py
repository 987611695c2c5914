"""The stop switch.

Nothing of a paused agent or of agents below it begins: no model turn, tool call or action of a program. Running
calls finish, as does a model turn that was just beginning, and people can keep voting.
"""

from __future__ import annotations

from agent.database.pools import Database
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind
from agent.domain.pause import EVERYTHING, Pause
from agent.store import audit, outbox
from agent.store import pause as pauses
from agent.store.audit import AuditEntry
from agent.store.outbox import Destination
from agent.usecases import admin_notices, grants
from signoff.values import Person

SUBJECT = "pause"


async def pause(db: Database, agent: str | None, *, by: Person | str, reason: str | None = None) -> bool:
    """``None``: all agents. Once this returns, no call or action begins. False: already paused."""
    return await _turn(db, agent, by, reason, stop=True)


async def resume(db: Database, agent: str | None, *, by: Person | str) -> bool:
    """One agent's pause and that of all end separately. False: there was no such pause."""
    return await _turn(db, agent, by, None, stop=False)


async def active_pauses(db: Database) -> list[Pause]:
    """Return all pauses in force, the pause of every agent first."""
    return await db.read(pauses.active_pauses)


async def known_agents(db: Database) -> list[str]:
    """Return the names of all agents that have runs or requests here, sorted, loaded or not."""
    return await db.read(pauses.known_agents)


async def _turn(db: Database, agent: str | None, by: Person | str, reason: str | None, *, stop: bool) -> bool:
    scope = agent or EVERYTHING
    actor = audit.actor(by) if isinstance(by, Person) else by
    async with db.transaction() as tx:
        await pauses.lock_switch(tx)
        stopped = any((each.agent or EVERYTHING) == scope for each in await pauses.active_pauses(tx))
        if stopped is stop:
            return False
        if stop:  # grants do not survive a pause
            await grants.end_all(tx, by=actor, because="paused", scope=scope)
        await audit.create_head(tx, SUBJECT)
        head = await audit.lock_head(tx, SUBJECT)
        if stop:
            pauses.insert(tx, scope, actor, reason, head.at)
        else:
            pauses.delete(tx, scope)
        kind = AuditKind.PAUSED if stop else AuditKind.RESUMED
        audit.append(tx, head, AuditEntry(kind, actor, {"scope": scope, "reason": reason}))
        notice = f"{'paused' if stop else 'unpaused'}{'' if agent else '_all'}"
        await admin_notices.notify(tx, notice, by=actor, agent=agent, text=reason)
        running = await pauses.held_runs(tx, scope)
        outbox.enqueue(tx, [outbox.run_root(there, run_id) for run_id, there in running])
        held = await pauses.held_calls(tx, scope)
        places = [(Destination(each.team_id, each.channel_id), each.request_id) for each in held]
        outbox.enqueue(tx, [outbox.card(*place, urgent=False) for place in places])
        waiting = await pauses.waiting_cards(tx, scope)
        outbox.enqueue(tx, [outbox.redrawn_card(there, request_id) for request_id, there in waiting])
        if not stop:
            tx.wake(*(Wakeup.call(each.call_id, each.agent) for each in held))
    return True
