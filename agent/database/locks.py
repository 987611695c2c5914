"""What a transaction that does not wait for locks says of rows that somebody else holds."""

from __future__ import annotations

from enum import Enum


class Skipped(Enum):
    """Instead of a result: the transaction left this out, and it has to go alone."""

    SKIPPED = "skipped"


SKIPPED = Skipped.SKIPPED
