"""Database errors, by what happened to the caller's work.

DatabaseError
├── DatabaseUnusable       wrong address, too old, refused: waiting does not help, a person has to act
├── DatabaseUnavailable    not reachable, or lost before COMMIT: nothing was written, a retry is safe
│   ├── BudgetExceeded     the time limit of a click is over: nothing was written
│   └── DatabaseRefuses    it answers, and stores nothing for anybody (a full disk): nothing was written
└── OutcomeUnknown         lost during COMMIT: written or not; check before a retry

A plain DatabaseError: the server refuses this transaction (a deadlock); nothing was written. Errors of a statement (a
violated constraint, a value beyond a limit) are not translated: its author handles them.
"""

from __future__ import annotations

import psycopg

from signoff.errors import SignoffError


class DatabaseError(SignoffError):
    """One line that never contains a password."""


class DatabaseUnusable(DatabaseError):
    """The database cannot be used as configured. ``remedy`` is what a person can do."""

    def __init__(self, detail: str, remedy: str = "") -> None:
        super().__init__(f"{detail}; {remedy}" if remedy else detail)
        self.detail = detail
        self.remedy = remedy


class DatabaseUnavailable(DatabaseError):
    """Nothing of the transaction was written."""


class BudgetExceeded(DatabaseUnavailable):
    """No free connection in time, or aborted before COMMIT."""


class DatabaseRefuses(DatabaseUnavailable):
    """The server answers and refuses, whoever asks. ``reason``: a clause for people. ``writes``: it was to write."""

    def __init__(self, message: str, reason: str, *, writes: bool = True) -> None:
        super().__init__(message)
        self.reason = reason
        self.writes = writes

    @property
    def sentence(self) -> str:
        """For people. What a failed read came after may have been done."""
        to = "to write" if self.writes else "to read"
        outcome = " Nothing was done." if self.writes else ""
        later = "An operator has to fix this; please try again later."
        return f"The database refuses {to}: {self.reason}.{outcome} {later}"


class OutcomeUnknown(DatabaseError):
    """COMMIT was not acknowledged: written or not."""


def in_one_line(error: BaseException) -> str:
    """The first line: libpq repeats the message for each address."""
    lines = [line.strip() for line in str(getattr(error, "orig", None) or error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


# Ended by statement_timeout, idle_in_transaction_session_timeout, transaction_timeout.
_OUT_OF_TIME = ("57014", "25P03", "25P04")

# Deadlock, lock, a configured limit, file errors: not the statement's fault, perhaps temporary.
_NOT_NOW = ("40001", "40P01", "53400", "55P03", "58")

_READ_ONLY = "25006"
_MISSING_RIGHT = "a right of the service is missing"
_REFUSALS = {
    _READ_ONLY: "it is read-only",
    "42501": _MISSING_RIGHT,
    "42P01": _MISSING_RIGHT,  # without a right on the schema, its tables are not found
    "53000": "its memory or files are used up",
    "53100": "its disk is full",
    "53200": "its memory or files are used up",
    "58030": "its disk fails",
}
"""States of the server that meet every writer. No value that a caller sends may cause one of them: limits of a
statement (54…), of a value (22…) and of temporary files (53400) are not among them, and 53300 ends no statement."""


def is_fatal(error: BaseException) -> bool:
    """The session ends, perhaps between commit and answer."""
    diag = getattr(getattr(error, "orig", error), "diag", None)
    return diag is not None and diag.severity_nonlocalized in {"FATAL", "PANIC"}


def is_lost(error: BaseException) -> bool:
    """The driver, not the server, reports a broken connection, which may still look open."""
    return isinstance(getattr(error, "orig", error), psycopg.OperationalError) and not _sqlstate(error)


def is_out_of_time(error: BaseException) -> bool:
    """Whether PostgreSQL ended the work because a statement, idle or transaction time limit was over."""
    return _sqlstate(error) in _OUT_OF_TIME


def refusal(error: BaseException, address: object, *, writes: bool = True) -> DatabaseRefuses | None:
    """The error for callers, if the server refuses everybody at the moment."""
    # A connection that may only read is read-only because we say so.
    if (reason := _REFUSALS.get(code := _sqlstate(error))) is None or (code == _READ_ONLY and not writes):
        return None
    words = f"the database {address} refuses ({reason}): {in_one_line(error)}; nothing was written"
    return DatabaseRefuses(words, reason, writes=writes)


def missing_rights(rights: str, address: object) -> DatabaseRefuses:
    """Return the error for a database whose role lacks these rights; nothing was written."""
    words = f"the database {address} refuses to write ({_MISSING_RIGHT}): {rights}"
    return DatabaseRefuses(words, _MISSING_RIGHT)


def is_not_now(error: BaseException) -> bool:
    """Whether the server's reason may pass."""
    return _sqlstate(error).startswith(_NOT_NOW)


def _sqlstate(error: BaseException) -> str:
    return getattr(getattr(error, "orig", error), "sqlstate", None) or ""
