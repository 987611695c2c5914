"""What can go wrong between us and the database, told so that the caller knows what has happened to its work.

DatabaseError
├── DatabaseUnusable       wrong address, too old, refused: waiting does not help, a person has to act
├── DatabaseUnavailable    not reachable, or lost before COMMIT: nothing was written, trying again is safe
│   └── BudgetExceeded     the time that a click may take is over: nothing was written
└── OutcomeUnknown         lost while COMMIT was on its way: written or not; look before trying again

A plain DatabaseError: the server refuses for a reason of its own (a deadlock, a full disk); nothing was written.

Errors of a statement itself (a violated constraint, say) are not translated: they are for whoever wrote it.
"""

from __future__ import annotations

import psycopg

from signoff.errors import SignoffError


class DatabaseError(SignoffError):
    """Something about the database; the message is one line and never contains a password."""


class DatabaseUnusable(DatabaseError):
    """This database cannot be worked with as it is configured."""


class DatabaseUnavailable(DatabaseError):
    """The database does not answer (now). Nothing of the transaction was written."""


class BudgetExceeded(DatabaseUnavailable):
    """No free connection in time, or the transaction took too long and was broken off before its COMMIT."""


class OutcomeUnknown(DatabaseError):
    """The connection was lost before COMMIT was acknowledged: nobody can say from here whether it counts."""


def in_one_line(error: BaseException) -> str:
    """The words of a driver's error without its line breaks and its repetitions of each address tried."""
    lines = [line.strip() for line in str(getattr(error, "orig", None) or error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


# Ended by the server's clock: statement_timeout, idle_in_transaction_session_timeout, transaction_timeout.
_OUT_OF_TIME = ("57014", "25P03", "25P04")

# A deadlock, no room, no memory, a lock, trouble with files, a standby: not the statement's fault, and it may pass.
_NOT_NOW = ("40001", "40P01", "53", "55P03", "58", "25006")


def is_fatal(error: BaseException) -> bool:
    """Whether the server ends the session with it: it may do so between the commit and its answer."""
    diag = getattr(getattr(error, "orig", error), "diag", None)
    return diag is not None and diag.severity_nonlocalized in {"FATAL", "PANIC"}


def is_lost(error: BaseException) -> bool:
    """Whether the driver says, and not the server, that the connection does not work: it may look open yet."""
    return isinstance(getattr(error, "orig", error), psycopg.OperationalError) and not _sqlstate(error)


def is_out_of_time(error: BaseException) -> bool:
    """Whether the server's clock ended the statement or the transaction."""
    return _sqlstate(error) in _OUT_OF_TIME


def is_not_now(error: BaseException) -> bool:
    """Whether the server refuses for a reason of its own, which may pass."""
    return _sqlstate(error).startswith(_NOT_NOW)


def _sqlstate(error: BaseException) -> str:
    return getattr(getattr(error, "orig", error), "sqlstate", None) or ""
