"""What a transaction has happen once it is committed, and not at all when it is not: counting, telling who listens.

It is a transaction's as a whole: what a savepoint that is rolled back has asked for happens, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

_AFTERWARDS = "signoff_afterwards"
_ENDED = "signoff_ended"


def add_callbacks(connection: AsyncConnection, calls: Iterable[Callable[[], object]]) -> None:
    """Make these calls, quick ones that raise nothing, when the connection's transaction has been committed."""
    connection.info.setdefault(_AFTERWARDS, []).extend(calls)


def add_ended(connection: AsyncConnection, requests: Mapping[UUID, int]) -> None:
    """These requests end with the transaction, with so many things on record about each."""
    connection.info.setdefault(_ENDED, {}).update(requests)


def clear(connection: AsyncConnection) -> None:
    """A transaction begins; what an earlier one on the same connection left has not been committed."""
    connection.info.pop(_AFTERWARDS, None)
    connection.info.pop(_ENDED, None)


def run_callbacks(connection: AsyncConnection, tell: Callable[[UUID, int], object]) -> None:
    """The transaction is committed. ``tell`` hears of the requests that ended with it."""
    for call in connection.info.pop(_AFTERWARDS, ()):
        call()
    for request_id, recorded in connection.info.pop(_ENDED, {}).items():
        tell(request_id, recorded)
