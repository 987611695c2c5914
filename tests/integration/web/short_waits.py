"""Hooks of schemathesis: long-polls wait for a second, or a test would take hours.

The command loads them itself (`SCHEMATHESIS_HOOKS`), in its own process.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import schemathesis

SECOND = 1.0
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


@schemathesis.hook
def before_call(_context: Any, case: schemathesis.Case, **_: Any) -> None:
    """Keep values that the API must refuse."""
    most = 300 if case.path.startswith("/pending") else 60
    query = case.query or {}
    with suppress(KeyError, TypeError, ValueError):
        if SECOND < float(query["wait"]) <= most:
            query["wait"] = SECOND


@schemathesis.hook
def filter_failure(_context: Any, failure: Any, case: schemathesis.Case, _response: Any) -> bool:
    """Ignore "invalid data was accepted" where a form made the data valid: it sends an object, a number or null as
    text.
    """
    accepted = type(failure).__name__ == "AcceptedNegativeData"
    return not (accepted and case.media_type in FORMS)
