"""How the commands that ask a running Signoff reach it: its address, and a key that no other process can read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from signoff.errors import SignoffError


def address(url: str | None) -> str:
    """Raises SignoffError with the setting that is missing."""
    return url or _missing("SIGNOFF_URL")


def secret(key_file: Path | None) -> str:
    """The key of the environment or of the file. Raises SignoffError with the setting that is missing or wrong."""
    given = os.environ.get("SIGNOFF_KEY")
    if given and key_file:
        raise SignoffError("SIGNOFF_KEY and SIGNOFF_KEY_FILE are both set; keep one")
    if key_file is None:
        return given or _missing("SIGNOFF_KEY")
    try:
        return key_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        why = (
            getattr(error, "strerror", None) or error
        )  # the system's words alone: its text names the file again
        raise SignoffError(f"SIGNOFF_KEY_FILE: cannot read {key_file}: {why}") from None


def _missing(name: str) -> NoReturn:
    raise SignoffError(
        f"{name} is not set: this command asks a running Signoff (`signoff keys create` makes a key)"
    )
