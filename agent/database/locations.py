"""Where migrations and data lie. Standard library alone: `bootstrap.py` loads this file before anything is
installed.
"""

import hashlib
import os
import stat
from pathlib import Path

STATE = Path("/var/lib/signoff")
"""Below this lies what belongs to root's private folders."""


def migrations_path() -> Path:
    """The folder with Alembic's `env.py`: beside this module in a wheel, the top folder `alembic` in a checkout."""
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
    """Root's place for what belongs to a private `folder`: root runs PostgreSQL as another user, who must reach it."""
    folder = folder.resolve()
    if os.geteuid() != 0 or open_to_others(folder):
        return None
    return STATE / hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


def data_home(folder: Path | None = None) -> Path:
    """Where the data of `folder` is kept: `SIGNOFF_HOME`, else `.signoff` in it, or root's place outside."""
    if chosen := os.environ.get("SIGNOFF_HOME"):
        return Path(chosen).expanduser().resolve()
    folder = (folder or Path.cwd()).resolve()
    return place_outside(folder) or folder / ".signoff"
