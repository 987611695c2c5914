"""Which question is open about a call, so that the same call made again picks it up.

A question about each use of a tool has a name of its own, because policy may count uses. Losing a name costs one more
question, and allows nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

_NAME = re.compile(r"hook-[0-9a-f]{32}\Z")


class OpenQuestion:
    """The name of a question, kept until `close`."""

    def __init__(self, path: Path, file: int | None) -> None:
        kept = "" if file is None else os.read(file, 100).decode("ascii", "replace")
        self._path, self._file = path, file
        self.key = kept
        if not _NAME.match(kept):
            self.renew()

    def renew(self) -> None:
        """Take another name: what was asked under this one is over."""
        self.key = f"hook-{uuid4().hex}"
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self.key.encode(), 0)

    def close(self) -> None:
        """The tool may be used now, so the same call again is another question."""
        if self._file is not None:
            os.ftruncate(self._file, 0)  # for who has opened it already
            self._path.unlink(missing_ok=True)


@contextmanager
def open_question(digest: str) -> Iterator[OpenQuestion]:
    """The question about this call; one of its own where another process waits for the same at this moment."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "signoff" / "hook" / digest
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield OpenQuestion(path, None)
        else:
            yield OpenQuestion(path, file)
    finally:
        os.close(file)
