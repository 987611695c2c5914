"""`link_template`: the only link on a card, always to the operator's own host.

Scheme and host are literal; placeholders come after the first "/" and are URL-encoded (RFC 3986, no reserved
characters), so a value stays one part of a path or query.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from agent.domain.description_template import MISSING, parts, value_at
from signoff.canonical import canonical_bytes

MAX_LINK = 3000
"""Slack's maximum for a button's URL."""

_ORIGIN = re.compile(r"https?://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?/")
_UNFIT = re.compile(r"[\s\\\x00-\x1f\x7f]")


def check_link(template: str) -> None:
    """Raises ValueError for a template that could lead to another host."""
    found = parts(template)
    text, path = found[0] if found else ("", None)
    if path is not None or not _ORIGIN.match(text):
        raise ValueError(
            'column 1: must begin with "https://", your own host and "/"; placeholders come after that'
        )
    if any(path is None and _UNFIT.search(text) for text, path in found):
        raise ValueError("must not contain spaces, backslashes or control characters")
    if len(template) > MAX_LINK:
        raise ValueError(f"must be at most {MAX_LINK} characters")


def placeholder_names(template: str) -> list[tuple[str, ...]]:
    """`("args", "order_id")`. Raises ValueError."""
    return [path for _, path in parts(template) if path is not None]


def render_link(template: str, args: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str | None:
    """None when a value is missing, is not plain, or would leave its place."""
    roots = {"args": args, "facts": facts or {}}
    rendered = ""
    for text, path in parts(template):
        value = text if path is None else _encoded(value_at(path, roots))
        if value is None:
            return None
        rendered += value
    # Browsers resolve "." and "..", also percent-encoded; quoting does not change dots.
    steps = re.split(r"[?#]", rendered, maxsplit=1)[0].split("/")[3:]
    if len(rendered) > MAX_LINK or any(step in {".", ".."} for step in steps):
        return None
    return rendered


def _encoded(value: Any) -> str | None:
    if value is MISSING or value is None or value == "" or isinstance(value, Mapping | list | tuple):
        return None
    return quote(value if isinstance(value, str) else canonical_bytes(value).decode(), safe="")
