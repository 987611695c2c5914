"""Texts from models and tools, cut and cleaned for database and model."""

from __future__ import annotations

import json
import re
import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from agent.domain.repetitions import repetitions
from signoff.description import bounded, whole_words
from signoff.masks import mask, redact_by_name

MAX_BYTES = 64 * 1024
"""A tool's result for the model, in UTF-8."""

NO_JSON = "which is not JSON: return a dict, list, str, number, bool or None"

_MAX_ERROR = 4000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # PostgreSQL's text takes neither NUL nor lone surrogates

_MAX_FRAMES = 4
"""Per log line."""

_PACKAGES = Path(__file__).resolve().parents[2]
_OURS = tuple(str(_PACKAGES / name) + "/" for name in ("agent", "signoff", "slackbot"))
_PYTHON = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


def storable_text(text: str) -> str:
    """U+FFFD replaces what the database cannot store."""
    return _UNSTORABLE.sub("\ufffd", text)


def escape_json(text: str) -> str:
    """Escapes mean the same; strict parsing refuses them."""
    return _UNSTORABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def result_text(value: Any) -> str:
    """Strings as they are, all else as JSON; long results are cut, with a note."""
    if value is None:
        return "Done."
    try:
        return answer_text(value)
    except ValueError:  # the effect has happened
        return f"{_cut(storable_text(_shown(value)))}\n[the tool {no_json(value)}]"


def answer_text(value: Any) -> str:
    """As `result_text`. Raises ValueError for what is not JSON."""
    if isinstance(value, str):
        return _cut(storable_text(value))
    try:
        return _cut(storable_text(to_json(value, inf_nan_mode="constants").decode()))
    except (ValueError, TypeError, RecursionError):
        raise ValueError(f"it {no_json(value)}") from None


def no_json(value: Any) -> str:
    """Return words for a result that is not JSON, with its type and what a tool may return instead."""
    return f"returned {type(value).__name__}, {NO_JSON}"


def reason(why: object) -> str:
    """Return a reason as text that the database can store; U+FFFD replaces what it cannot."""
    return storable_text(str(why))


def error_text(raised: BaseException) -> str:
    """`KeyError: 'no such customer' (my_agents.py:57)`: type, message and author's line."""
    return _named(raised, _one_line(raised), place(raised))


def log_text(raised: BaseException, arguments: Mapping[str, Any]) -> str:
    """Arguments' values are masked."""
    hidden = [(text, "argument") for text, _ in redact_by_name({"all": arguments}, redact=["all"]).hidden]
    message = _one_line(raised)
    return _named(raised, mask(message, repetitions(message, hidden)), trail(raised))


def _one_line(raised: BaseException) -> str:
    return " ".join(storable_text(str(raised)).split())


def _named(raised: BaseException, message: str, where: str | None) -> str:
    text = f"{type(raised).__name__}: {message}" if message else type(raised).__name__
    text = bounded(text, _MAX_ERROR)
    return f"{text} ({where})" if where else text


def _shown(value: Any) -> str:
    try:
        return to_json(value, fallback=repr, inf_nan_mode="constants").decode()
    except (ValueError, TypeError, RecursionError):
        return json.dumps(repr(value))


def _cut(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= MAX_BYTES:
        return text
    kept = whole_words(encoded[:MAX_BYTES].decode(errors="ignore"))
    return f"{kept}\n[cut: the first {MAX_BYTES // 1024} KiB of {len(encoded) // 1024 + 1} KiB]"


def place(raised: BaseException) -> str | None:
    """The innermost line: `my_agents.py:57`."""
    frames = _author_frames(raised)
    return f"{Path(frames[0].filename).name}:{frames[0].lineno}" if frames else None


def trail(raised: BaseException) -> str | None:
    """`my_agents.py:57 in price_of, my_agents.py:80 in process_refund`."""
    frames = _author_frames(raised)[:_MAX_FRAMES]
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
