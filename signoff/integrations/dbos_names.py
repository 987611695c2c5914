"""The name of a request that tells its DBOS workflow and step."""

from __future__ import annotations

import re
from urllib.parse import unquote

PREFIX = "dbos:"

LONGEST = 112
"""Characters of a workflow id; a request name has at most 128."""

_FREE = re.compile(r"[A-Za-z0-9_.@-]")


def request_name(workflow: str, step: int) -> str:
    """Characters that names cannot have become `~` and hex. Raises ValueError for a too long id."""
    quoted = "".join(
        each if _FREE.match(each) else "".join(f"~{byte:02x}" for byte in each.encode()) for each in workflow
    )
    if len(quoted) > LONGEST:
        raise ValueError(
            f"the workflow id {workflow!r} is too long: {LONGEST} letters, digits and _ . - @ have room"
        )
    return f"{PREFIX}{quoted}:{step}"


def workflow_of(key: str) -> str | None:
    """None for names of other programs."""
    found = re.fullmatch(r"dbos:((?:[A-Za-z0-9_.@-]|~[0-9a-f]{2})+):\d+", key)
    if found is None:
        return None
    quoted = re.sub(r"~([0-9a-f]{2})", lambda byte: f"%{byte[1]}", found[1])
    return unquote(quoted)
