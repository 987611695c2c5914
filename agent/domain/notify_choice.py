"""How a person is told of the outcome of what they asked for."""

from __future__ import annotations

from enum import StrEnum


class NotifyChoice(StrEnum):
    """How a person hears of the outcome of what they asked for: by direct message, in its thread, or not at all."""

    DM = "dm"
    THREAD = "thread"
    OFF = "off"
