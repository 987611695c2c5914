"""How a person is told of the outcome of what they asked for."""

from __future__ import annotations

from enum import StrEnum


class NotifyChoice(StrEnum):
    DM = "dm"
    THREAD = "thread"
    OFF = "off"
