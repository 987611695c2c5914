"""Uses only the standard library: `bootstrap.py` runs before anything is installed."""

import hashlib
import os
import stat
from pathlib import Path

STATE = Path("/var/lib/signoff")
"""For data of root's private directories."""


def migrations_path() -> Path:
    """A wheel has the scripts beside this module, a checkout in top-level `alembic`."""
    here = Path(__file__).resolve().parent
    for folder in (here / "_alembic", here.parent.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise FileNotFoundError(f"no migrations beside {here}: the installation is incomplete")


def open_to_others(folder: Path) -> bool:
    """Whether another user may pass through `folder` and its existing parents."""
    folder = folder.resolve()
    return all(
        step.stat().st_mode & stat.S_IXOTH == stat.S_IXOTH
        for step in (folder, *folder.parents)
        if step.exists()
    )


def place_outside(folder: Path) -> Path | None:
    """PostgreSQL must reach root's private data as another user."""
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
