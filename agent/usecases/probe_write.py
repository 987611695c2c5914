"""Does the database store anything? A test write tells."""

from __future__ import annotations

from uuid import uuid4

from agent.database.errors import (
    DatabaseError,
    DatabaseRefuses,
    DatabaseUnavailable,
    in_one_line,
    missing_rights,
)
from agent.database.pools import Database
from agent.store import probe_write


async def run(db: Database) -> None:
    """Write as the service does, and leave nothing.

    Raises DatabaseRefuses for whatever the server answers, and another DatabaseError if nothing is known.
    """
    try:
        await _write(db)
    except DatabaseError:
        raise
    except Exception as error:  # our own constant statements: it is the server's fault
        reason = in_one_line(error)
        raise DatabaseRefuses(f"the database {db.address} refuses to write: {reason}", reason) from error


async def _write(db: Database) -> None:
    async with db.transaction() as tx:
        missing = await probe_write.missing_rights(tx)
        probe_write.write(tx, str(uuid4()))
    if missing:
        raise missing_rights(", ".join(missing), db.address)
    try:
        async with db.transaction() as tx:
            probe_write.fill(tx)
    except DatabaseUnavailable:
        raise
    except DatabaseError:
        pass  # temp_file_limit, or a moment's trouble: nothing is known of the disk
