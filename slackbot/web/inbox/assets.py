"""Scripts and styles, under URLs that change with their content. htmx is included as released, with its licence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import Response

PREFIX = "/inbox/static"

_FILES = ("htmx-2.0.10.min.js", "icon.svg", "inbox.css", "inbox.js")
_KINDS = {".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".js": "text/javascript; charset=utf-8"}
_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Asset:
    """``name`` contains part of its SHA-256."""

    name: str
    content: bytes
    kind: str


router = APIRouter(include_in_schema=False)


@router.get(PREFIX + "/{name}")
async def asset(name: str) -> Response:
    """Serve a static file, to be cached for good because its name changes with its content; else 404."""
    found = next((each for each in assets().values() if each.name == name), None)
    if found is None:
        return Response("There is no such file.\n", 404, media_type="text/plain")
    return Response(found.content, headers=_FOR_GOOD, media_type=found.kind)


def address(name: str) -> str:
    """Return the URL path of a static file, which contains part of its content's digest."""
    return f"{PREFIX}/{assets()[name].name}"


@cache
def assets() -> Mapping[str, Asset]:
    """Return the static files by their plain names; they are read once."""
    return {name: _read(Path(__file__).parent / "static" / name) for name in _FILES}


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:12]
    return Asset(f"{path.stem}.{digest}{path.suffix}", content, _KINDS[path.suffix])
