"""The response to a submitted form, besides closing it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FormError:
    """Why a form was refused: input errors by block_id, or a message, or the next step, in its place."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    next_step: dict[str, Any] | None = None
