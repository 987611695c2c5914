"""Apply a policy, restore an earlier one.

Evaluations and claims hold the pause switch shared until COMMIT and compare their policy with the one in force.
Applying takes the switch exclusively: after that, nothing runs under another policy.
"""

from __future__ import annotations

import hashlib

from agent.database.pools import Database
from agent.database.transaction import Transaction
from agent.database.wakeups import Wakeup
from agent.domain.audit import AuditKind
from agent.domain.checkpoints import changed_checkpoints
from agent.domain.errors import NotFound
from agent.domain.pause import EVERYTHING
from agent.domain.policy import Policy
from agent.store import audit, pause
from agent.store import policy as policies
from agent.store.audit import AuditEntry
from agent.store.policy import StoredPolicy
from agent.usecases import admin_notices, grants
from signoff.errors import Conflict

SUBJECT = "policy"


async def put_first(db: Database, policy: Policy, *, by: str) -> StoredPolicy:
    """Put this policy in force if there never was one; return the policy that is in force."""
    found = await in_force(db)
    if found is not None:
        return found
    async with db.transaction() as tx:
        await pause.lock_switch(tx)
        if await policies.epoch_in_force(tx) == 0:
            await _insert(tx, 1, policy.source, policy.digest, by, None)
    return await _stands(db)


async def apply(db: Database, policy: Policy, *, by: str) -> StoredPolicy:
    """Once this returns, nothing is evaluated or claimed under an earlier policy. The same text changes nothing."""
    async with db.transaction() as tx:
        await pause.lock_switch(tx)
        now = await policies.in_force(tx)
        if now is None or now.source != policy.source:
            await _end_grants(tx, now, policy.source, by)
            epoch = now.epoch + 1 if now else 1
            await _insert(tx, epoch, policy.source, policy.digest, by, None)
            facts = admin_notices.policy_facts(now, epoch, policy.source, None)
            await admin_notices.notify(tx, "policy", by=by, **facts)
    return await _stands(db)


async def earlier(db: Database, epoch: int | None = None) -> tuple[StoredPolicy, StoredPolicy]:
    """The policy in force, and the one to restore (default: the previous one). Raises ``NotFound``."""
    async with db.connection() as connection:
        now = await policies.in_force(connection)
        if now is None:
            raise NotFound("no policy was ever in force here")
        wanted = now.origin - 1 if epoch is None else epoch
        found = await policies.find(connection, wanted)
        if found is not None and found.restores is not None:
            found = await policies.find(connection, found.restores)
    if found is None:
        raise NotFound(f"there is no policy {wanted}" if wanted else "there is no earlier policy")
    return now, found


async def restore(
    db: Database, now: StoredPolicy, wanted: StoredPolicy, digest: bytes, *, by: str
) -> StoredPolicy:
    """Put an earlier policy in force as a new epoch, replacing ``now``. Raises ``Conflict`` if that is not in force."""
    async with db.transaction() as tx:
        await pause.lock_switch(tx)
        if await policies.epoch_in_force(tx) != now.epoch:
            raise Conflict("another policy has come into force in the meantime; nothing was changed")
        if wanted.source != now.source:
            await _end_grants(tx, now, wanted.source, by)
            await _insert(tx, now.epoch + 1, wanted.source, digest, by, wanted.epoch)
            facts = admin_notices.policy_facts(now, now.epoch + 1, wanted.source, wanted.epoch)
            await admin_notices.notify(tx, "policy", by=by, **facts)
    return await _stands(db)


async def in_force(db: Database) -> StoredPolicy | None:
    """``None`` if no process ever started on this database."""
    return await db.read(policies.in_force)


async def epoch_in_force(db: Database) -> int:
    """Return the number of the policy in force, or 0 if there never was one."""
    return await db.read(policies.epoch_in_force)


async def find(db: Database, epoch: int) -> StoredPolicy:
    """Raises ``NotFound``."""
    found = await db.read(policies.find, epoch)
    if found is None:
        raise NotFound(f"there is no policy {epoch}")
    return found


async def history(db: Database, limit: int) -> list[StoredPolicy]:
    """Return all policies that were ever in force, latest first, at most ``limit``."""
    return await db.read(policies.history, limit)


async def _end_grants(tx: Transaction, now: StoredPolicy | None, source: str, by: str) -> None:
    """Consent was given under the checkpoint as it was."""
    if now is None:
        return
    changed = changed_checkpoints(now.source, source)
    scope = EVERYTHING if changed is None else None
    await grants.end_all(
        tx, by=by, because="its checkpoint was changed", scope=scope, checkpoints=changed or ()
    )


async def _insert(
    tx: Transaction, epoch: int, source: str, digest: bytes, by: str, restores: int | None
) -> None:
    await audit.create_head(tx, SUBJECT)
    head = await audit.lock_head(tx, SUBJECT)
    policies.insert(tx, epoch, source, digest, by, restores, head.at)
    text = hashlib.sha256(source.encode()).hexdigest()
    detail = {"epoch": epoch, "digest": digest.hex(), "text": text, "restores": restores}
    audit.append(tx, head, AuditEntry(AuditKind.POLICY_APPLIED, by, detail))
    tx.wake(Wakeup.policy())


async def _stands(db: Database) -> StoredPolicy:
    found = await in_force(db)
    if found is None:
        raise NotFound("no policy was ever in force here")
    return found
