"""What the app asks for in its manifest: the sandbox grants just that, as Slack does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml


@cache
def manifest_scopes() -> tuple[str, ...]:
    """The scopes of the bot; from `manifest.yml`, at the top of a checkout or where a wheel has it."""
    top = Path(__file__).resolve().parents[1]
    places = (top / "manifest.yml", top / "slackbot" / "slack_api" / "manifest.yml")
    found = next(place for place in places if place.is_file())
    manifest = yaml.safe_load(found.read_text(encoding="utf-8"))
    return tuple(manifest["oauth_config"]["scopes"]["bot"])
