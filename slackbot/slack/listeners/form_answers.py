"""The response to a submitted form, besides closing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NOT_COUNTED = "Not counted"
"""Heading of a message to somebody whose form or press had no effect."""


@dataclass(frozen=True, slots=True)
class FormError:
    """What a form gets instead of closing: input errors by block_id, a message under a heading, or the next step."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    heading: str = NOT_COUNTED
    next_step: dict[str, Any] | None = None
