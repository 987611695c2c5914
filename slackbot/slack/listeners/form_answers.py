from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

NOT_RECORDED = "Not recorded"


@dataclass(frozen=True, slots=True)
class FormError:
    """Input errors by block_id, a message under a heading, or the next step."""

    errors: dict[str, str] = field(default_factory=dict)
    notice: str = ""
    heading: str = NOT_RECORDED
    next_step: dict[str, Any] | None = None
