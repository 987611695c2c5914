"""What a server says about coming back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from signoff.retry_after import retry_after

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("١٢", None),
        ("9" * 400, 999999999.0),
    ],
)
def test_both_forms_are_understood(value: str | None, seconds: float | None) -> None:
    """Seconds, fractions too, and dates (RFC 9110); anything else says nothing."""
    assert retry_after(value, NOW) == seconds
