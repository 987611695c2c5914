"""All policies ever in force, as texts; the last is in force."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import text

from agent.database.transaction import Connection, Transaction, fetch, query
from agent.store import pause
from agent.store.rows import row_as


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A policy that is or was in force, numbered by its epoch; `restores`: the epoch that it repeats."""

    epoch: int
    source: str = field(repr=False)
    digest: bytes
    by: str
    restores: int | None
    created_at: datetime

    @property
    def origin(self) -> int:
        return self.restores or self.epoch


async def in_force(connection: Connection) -> StoredPolicy | None:
    """Return the policy in force, which is the latest, or None if there has never been one."""
    found = await fetch(connection, _IN_FORCE)
    return row_as(StoredPolicy, found[0]) if found else None


async def epoch_in_force(connection: Connection) -> int:
    """Return the number of the policy in force, or 0 if there has never been one."""
    found: int = (await fetch(connection, _EPOCH))[0].policy_epoch
    return found


async def lock_epoch(connection: Connection) -> int:
    """Holds the pause switch, so the epoch stays in force until COMMIT."""
    *_, found = await query(connection, pause.HOLD, _EPOCH)
    epoch: int = found[0].policy_epoch
    return epoch


async def find(connection: Connection, epoch: int) -> StoredPolicy | None:
    """Return the policy of this epoch, in force or not, or None if there is none."""
    found = await fetch(connection, _FIND, epoch=epoch)
    return row_as(StoredPolicy, found[0]) if found else None


async def history(connection: Connection, limit: int) -> list[StoredPolicy]:
    """Return the latest policies, the one in force first."""
    return [row_as(StoredPolicy, row) for row in await fetch(connection, _HISTORY, limit=limit)]


async def between(connection: Connection, since: datetime, until: datetime) -> list[StoredPolicy]:
    """Return the policies that were in force in this time, earliest first; none if there was none at its beginning."""
    return [row_as(StoredPolicy, row) for row in await fetch(connection, _BETWEEN, since=since, until=until)]


def insert(
    tx: Transaction, epoch: int, source: str, digest: bytes, by: str, restores: int | None, at: datetime
) -> None:
    """Put a policy in force under the next epoch; the database refuses an epoch that is taken."""
    tx.add(_INSERT, epoch=epoch, source=source, digest=digest, by=by, restores=restores, at=at)


_IN_FORCE = text(
    "SELECT epoch, source, digest, by, restores, created_at FROM policy ORDER BY epoch DESC LIMIT 1"
)
_EPOCH = text("SELECT coalesce(max(epoch), 0) AS policy_epoch FROM policy")
_FIND = text("SELECT epoch, source, digest, by, restores, created_at FROM policy WHERE epoch = :epoch")
_HISTORY = text(
    "SELECT epoch, source, digest, by, restores, created_at FROM policy ORDER BY epoch DESC LIMIT :limit"
)
_BETWEEN = text("""
SELECT epoch, source, digest, by, restores, created_at FROM policy
WHERE epoch >= (SELECT max(epoch) FROM policy WHERE created_at <= :since) AND created_at < :until ORDER BY epoch
""")
_INSERT = text("""
INSERT INTO policy (epoch, source, digest, by, restores, created_at)
VALUES (:epoch, :source, :digest, :by, :restores, :at)
""")
