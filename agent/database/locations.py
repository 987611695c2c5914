"""Paths of migrations and data. Standard library only: `bootstrap.py` loads this before anything is installed."""

import hashlib
import os
import stat
from pathlib import Path

STATE = Path("/var/lib/signoff")
"""For data of root's private directories."""


def migrations_path() -> Path:
    """The directory of Alembic's `env.py`: beside this module in a wheel, top-level `alembic` in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_alembic", here.parent.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError(f"no migrations beside {here}: the installation is incomplete")


def open_to_others(folder: Path) -> bool:
    """Whether another user may pass through `folder` and all its existing parents."""
    folder = folder.resolve()
    return all(
        step.stat().st_mode & stat.S_IXOTH == stat.S_IXOTH
        for step in (folder, *folder.parents)
        if step.exists()
    )


def place_outside(folder: Path) -> Path | None:
    """A place for root's private `folder`: root runs PostgreSQL as another user, who must reach the data."""
    folder = folder.resolve()
    if os.geteuid() != 0 or open_to_others(folder):
        return None
    return STATE / hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]


def data_home(folder: Path | None = None) -> Path:
    """`SIGNOFF_HOME`, else `.signoff` in `folder`, or root's place outside."""
    if chosen := os.environ.get("SIGNOFF_HOME"):
        return Path(chosen).expanduser().resolve()
    folder = (folder or Path.cwd()).resolve()
    return place_outside(folder) or folder / ".signoff"
