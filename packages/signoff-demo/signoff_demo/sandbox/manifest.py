"""The app manifest: the sandbox grants exactly its scopes, as Slack does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from signoff_demo.sandbox.refusal import Json


def manifest_scopes() -> tuple[str, ...]:
    """Return the scopes that the manifest asks for, which the sandbox grants exactly."""
    return tuple(_manifest()["oauth_config"]["scopes"]["bot"])


def manifest_shortcuts() -> tuple[Json, ...]:
    """Return the shortcuts that the manifest declares, as Slack lists them."""
    return tuple(_manifest()["features"]["shortcuts"])


@cache
def _manifest() -> Json:
    """`manifest.yml` is at the top of a checkout, or in the service's wheel beside this package."""
    here = Path(__file__).resolve()
    places = (here.parents[4] / "manifest.yml", here.parents[2] / "slackbot" / "slack_api" / "manifest.yml")
    found = next(place for place in places if place.is_file())
    manifest: Json = yaml.safe_load(found.read_text(encoding="utf-8"))
    return manifest
