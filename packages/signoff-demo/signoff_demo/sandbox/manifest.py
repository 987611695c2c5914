"""The app manifest: the sandbox grants exactly its scopes, as Slack does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml


@cache
def manifest_scopes() -> tuple[str, ...]:
    """`manifest.yml` is at the top of a checkout, or in the service's wheel beside this package."""
    here = Path(__file__).resolve()
    places = (here.parents[4] / "manifest.yml", here.parents[2] / "slackbot" / "slack_api" / "manifest.yml")
    found = next(place for place in places if place.is_file())
    manifest = yaml.safe_load(found.read_text(encoding="utf-8"))
    return tuple(manifest["oauth_config"]["scopes"]["bot"])
