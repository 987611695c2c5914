from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json


def json_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Encode rows for PostgreSQL; bytes only as a column. ValueError for a value that JSON cannot show.

    pydantic's encoder writes UUIDs and times itself, in a third of the time that the standard library's takes.
    """
    return to_json([_row(each) for each in rows]).decode()


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: f"\\x{value.hex()}" if type(value) is bytes else value for name, value in row.items()}
