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


def on_last_input(view: dict[str, Any], problem: str) -> dict[str, str]:
    """Slack accepts errors for inputs only: use the last one, next to the button."""
    inputs = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    return {inputs[-1]: problem} if inputs else {}
