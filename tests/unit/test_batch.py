"""Statements that are sent together."""

from __future__ import annotations

import pytest

from agent.database.batch import Batch


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    """What has no text that PostgreSQL would read back as the same value is an error, not its `repr`."""
    with pytest.raises(TypeError, match="set"):
        Batch().add_rows("SELECT %(rows)s", [{"who": {"U0ADA"}}])
