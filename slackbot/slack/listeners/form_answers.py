"""What a submitted form is answered with, beside being closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FormError:
    """Why a form was not taken: errors of its inputs by block_id, or a sentence, or the next step, in its place."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    next_step: dict[str, Any] | None = None
