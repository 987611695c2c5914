"""Where in a list somebody is, small enough to travel in a button."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

LONGEST = 24
"""Pages that Back finds its way through; before them it leads to the first page. A button carries 2,000 characters."""

_TEXT = re.compile(r"[0-9a-f]{32}(?:\.[0-9a-f]{32})*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """A page, by the last ids of the pages before it; none for the first page."""

    steps: tuple[UUID, ...] = ()

    @property
    def after(self) -> UUID | None:
        """The id that the page begins behind."""
        return self.steps[-1] if self.steps else None

    @property
    def back(self) -> Cursor | None:
        """The page before; `None` on the first."""
        return Cursor(self.steps[:-1]) if self.steps else None

    def forward(self, last: UUID) -> Cursor:
        """The page behind this id."""
        return Cursor((*self.steps, last)[-LONGEST:])

    def __str__(self) -> str:
        return ".".join(step.hex for step in self.steps)

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """What `str` wrote; the first page for everything else."""
        if not text or not _TEXT.match(text):
            return cls()
        return cls(tuple(UUID(step) for step in text.split("."))[-LONGEST:])
