"""What a transaction has happen once it is committed, and not at all when it is not: counting, say."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

_AFTERWARDS = "signoff_afterwards"


def once_committed(connection: AsyncConnection, calls: Iterable[Callable[[], object]]) -> None:
    """Make these calls, quick ones that raise nothing, when the connection's transaction has been committed."""
    connection.info.setdefault(_AFTERWARDS, []).extend(calls)


def forget(connection: AsyncConnection) -> None:
    """A transaction begins; what an earlier one on the same connection left has not been committed."""
    connection.info.pop(_AFTERWARDS, None)


def go(connection: AsyncConnection) -> None:
    """The transaction is committed."""
    for call in connection.info.pop(_AFTERWARDS, ()):
        call()
