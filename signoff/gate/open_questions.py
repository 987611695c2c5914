"""Remember a call's open question, so that repeating the call resumes it.

Policy may count uses, so each use of a tool gets its own name. A lost name costs one more question and allows nothing.
The agent may write here: a name begins with the digest of its call, so the name of another call's question is not one.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST = 200


class OpenQuestion:
    def __init__(self, path: Path, file: int | None) -> None:
        kept = "" if file is None else os.read(file, _LONGEST).decode("ascii", "replace")
        self._path, self._file = path, file
        self.key = kept
        if not re.fullmatch(rf"hook-{path.name}-[0-9a-f]{{32}}", kept):
            self.renew()

    def renew(self) -> None:
        self.key = f"hook-{self._path.name}-{secrets.token_hex(16)}"
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self.key.encode(), 0)

    def close(self) -> None:
        """The tool may run, so the same call is a new question next time."""
        if self._file is not None:
            os.ftruncate(self._file, 0)  # for processes that already opened it
            self._path.unlink(missing_ok=True)


@contextmanager
def open_question(digest: str) -> Iterator[OpenQuestion]:
    """A separate question if another process waits for the same call."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "signoff" / "hook" / digest
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield OpenQuestion(path, None)
        else:
            yield OpenQuestion(path, file)
    finally:
        os.close(file)
