"""Database errors, by what happened to the caller's work.

DatabaseError
├── DatabaseUnusable       wrong address, too old, refused: waiting does not help, a person has to act
├── DatabaseUnavailable    not reachable, or lost before COMMIT: nothing was written, a retry is safe
│   └── BudgetExceeded     the time limit of a click is over: nothing was written
└── OutcomeUnknown         lost during COMMIT: written or not; check before a retry

A plain DatabaseError: the server refuses (a deadlock, a full disk); nothing was written. Errors of a statement (a
violated constraint) are not translated: its author handles them.
"""

from __future__ import annotations

import psycopg

from signoff.errors import SignoffError


class DatabaseError(SignoffError):
    """One line that never contains a password."""


class DatabaseUnusable(DatabaseError):
    """The database cannot be used as configured."""


class DatabaseUnavailable(DatabaseError):
    """Nothing of the transaction was written."""


class BudgetExceeded(DatabaseUnavailable):
    """No free connection in time, or aborted before COMMIT."""


class OutcomeUnknown(DatabaseError):
    """COMMIT was not acknowledged: written or not."""


def in_one_line(error: BaseException) -> str:
    """The first line: libpq repeats the message for each address."""
    lines = [line.strip() for line in str(getattr(error, "orig", None) or error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


# Ended by statement_timeout, idle_in_transaction_session_timeout, transaction_timeout.
_OUT_OF_TIME = ("57014", "25P03", "25P04")

# Deadlock, no space or memory, lock, file errors, standby: not the statement's fault, perhaps temporary.
_NOT_NOW = ("40001", "40P01", "53", "55P03", "58", "25006")


def is_fatal(error: BaseException) -> bool:
    """The session ends, perhaps between commit and answer."""
    diag = getattr(getattr(error, "orig", error), "diag", None)
    return diag is not None and diag.severity_nonlocalized in {"FATAL", "PANIC"}


def is_lost(error: BaseException) -> bool:
    """The driver, not the server, reports a broken connection, which may still look open."""
    return isinstance(getattr(error, "orig", error), psycopg.OperationalError) and not _sqlstate(error)


def is_out_of_time(error: BaseException) -> bool:
    return _sqlstate(error) in _OUT_OF_TIME


def is_not_now(error: BaseException) -> bool:
    """Whether the server's reason may pass."""
    return _sqlstate(error).startswith(_NOT_NOW)


def _sqlstate(error: BaseException) -> str:
    return getattr(getattr(error, "orig", error), "sqlstate", None) or ""
