"""What operators read in `admin_channel` of changes of policy, pauses and keys, each with its author."""

from __future__ import annotations

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.domain.audit import person_of
from agent.domain.policy_difference import difference
from agent.store import admin_channel, outbox
from agent.store import policy as policies
from agent.store.outbox import Destination
from agent.store.policy import StoredPolicy


async def notify(tx: Transaction, line: str, *, by: str, **facts: str | None) -> None:
    """Enqueue a notice with the change, unless no channel is known."""
    admin = await admin_channel.find(tx)
    if admin is not None:
        _enqueue(tx, admin, line, by, **facts)


async def follow(db: Database, epoch: int, admin: Destination | None) -> None:
    """Note where the channel of this policy is. A channel that is new reads what the policy changed."""
    async with db.transaction() as tx:
        if not await admin_channel.put(tx, epoch, admin) or admin is None:
            return
        stored = await policies.find(tx, epoch)
        if stored is not None:
            before = await policies.find(tx, epoch - 1)
            facts = policy_facts(before, stored.epoch, stored.source, stored.restores)
            _enqueue(tx, admin, "policy", stored.by, **facts)


def policy_facts(
    before: StoredPolicy | None, epoch: int, source: str, restores: int | None
) -> dict[str, str | None]:
    """What a notice of a policy says."""
    text = "\n".join(difference(before.source if before else "", source))
    return {"policy": str(epoch), "restores": str(restores) if restores else None, "text": text}


def _enqueue(tx: Transaction, admin: Destination, line: str, by: str, **facts: str | None) -> None:
    person = person_of(by)
    author = {"team": person.team_id, "user": person.user_id} if person else {"by": by}
    outbox.enqueue(tx, [outbox.direct(admin, None, None, line, **author, **facts)])
