"""Where the state of waiting runs of the OpenAI Agents SDK is kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol


class RunStore(Protocol):
    """Stores the state of waiting runs, by key: text with unmasked arguments, so restrict write access."""

    async def read(self, key: str) -> str | None:
        """The stored state."""

    async def write(self, key: str, state: str) -> None:
        """The new state must be durable on return."""

    async def remove(self, key: str) -> None:
        """Delete the state of a finished run."""


class FileRunStore:
    """One file per run, for a program on one machine."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    async def read(self, key: str) -> str | None:
        """Raises OSError."""
        file = self._file(key)
        return file.read_text("utf-8") if file.exists() else None

    async def write(self, key: str, state: str) -> None:
        """Replace the file atomically. Raises OSError."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._file(key).with_suffix(".draft")
        draft.write_text(state, "utf-8")
        draft.replace(self._file(key))

    async def remove(self, key: str) -> None:
        """Raises OSError."""
        self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        if not re.fullmatch(r"[\w.:@~-]+", key):
            raise ValueError(f"not a valid name for a run: {key!r}")
        return self._path / f"{key}.json"
