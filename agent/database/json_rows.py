from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID


def json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Raises TypeError for values other than JSON, UUIDs, times and bytes."""
    return json.dumps(rows, default=_as_text)


def _as_text(value: Any) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    raise TypeError(f"no text for a value of type {type(value).__name__}")
