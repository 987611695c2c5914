"""Where the author's code raised: file, line and function, never a value."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_MOST = 4
"""Per log line."""

_PACKAGES = Path(__file__).resolve().parents[2]
_OURS = tuple(str(_PACKAGES / name) + "/" for name in ("agent", "signoff", "slackbot"))
_PYTHON = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def place(raised: BaseException) -> str | None:
    """The innermost line: `my_agents.py:57`."""
    frames = _author_frames(raised)
    return f"{Path(frames[0].filename).name}:{frames[0].lineno}" if frames else None


def trail(raised: BaseException) -> str | None:
    """`my_agents.py:57 in price_of, my_agents.py:80 in process_refund`."""
    frames = _author_frames(raised)[:_MOST]
    return ", ".join(f"{Path(each.filename).name}:{each.lineno} in {each.name}" for each in frames) or None


def _author_frames(raised: BaseException) -> list[traceback.FrameSummary]:
    """Library frames count only if nothing else is left."""
    passed = traceback.extract_tb(raised.__traceback__)
    foreign = [frame for frame in reversed(passed) if not _is_ours(frame.filename)]
    own = [frame for frame in foreign if not set(_INSTALLED) & set(Path(frame.filename).parts)]
    return own or foreign[-1:]


def _is_ours(filename: str) -> bool:
    in_python = filename.startswith(_PYTHON) and not set(_INSTALLED) & set(Path(filename).parts)
    return in_python or filename.startswith((*_OURS, "<"))
