"""The position in a list, as a button carries it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

LONGEST = 24
"""Pages that Back can return to; then it leads to the first. A button value has 2,000 characters."""

_TEXT = re.compile(r"[0-9a-f]{32}(?:\.[0-9a-f]{32})*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last ids of the previous pages; none for the first page."""

    steps: tuple[UUID, ...] = ()

    @property
    def after(self) -> UUID | None:
        return self.steps[-1] if self.steps else None

    @property
    def back(self) -> Cursor | None:
        return Cursor(self.steps[:-1]) if self.steps else None

    def forward(self, last: UUID) -> Cursor:
        return Cursor((*self.steps, last)[-LONGEST:])

    def __str__(self) -> str:
        return ".".join(step.hex for step in self.steps)

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """Parse the output of `str`; anything else is the first page."""
        if not text or not _TEXT.match(text):
            return cls()
        return cls(tuple(UUID(step) for step in text.split("."))[-LONGEST:])
