"""Where the store's files lie: the migrations, and what belongs to a folder.

Uses the standard library alone and imports nothing of ours, because `bootstrap.py` loads this file by its
path before anything is installed.
"""

import hashlib
import os
import stat
from pathlib import Path

STATE = Path("/var/lib/signoff")
"""Below this lies what belongs to root's private folders."""


def migrations_path() -> Path:
    """The folder with Alembic's `env.py` and `versions/`.

    In a wheel it is packed beside this module; in a checkout or an editable install it is the top folder
    `alembic`.

    Raises:
        FileNotFoundError: neither place has it, so the installation is broken.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "_alembic", here.parent.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError(f"no migrations beside {here}: the installation is incomplete")


def open_to_others(folder: Path) -> bool:
    """Whether another user may pass through `folder` and all its parents (those of them that exist)."""
    folder = folder.resolve()
    return all(
        step.stat().st_mode & stat.S_IXOTH == stat.S_IXOTH
        for step in (folder, *folder.parents)
        if step.exists()
    )


def place_outside(folder: Path) -> Path | None:
    """Root's place for what belongs to `folder` when that folder is closed to others; otherwise None.

    PostgreSQL refuses to run as root, so root runs it as another user, who must reach its programs and its
    data. A private folder is not opened for that: program and data go below `STATE` instead, under a name
    derived from the folder's path.
    """
    folder = folder.resolve()
    if os.geteuid() != 0 or open_to_others(folder):
        return None
    return STATE / hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


def data_home(folder: Path | None = None) -> Path:
    """Where the data of `folder` (default: the current one) is kept; `SIGNOFF_HOME` overrides.

    That is `.signoff` inside it or, for root in a private folder, the place outside.
    """
    if chosen := os.environ.get("SIGNOFF_HOME"):
        return Path(chosen).expanduser().resolve()
    folder = (folder or Path.cwd()).resolve()
    return place_outside(folder) or folder / ".signoff"
