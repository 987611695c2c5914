"""The manifest of the Slack app, and the scopes that it asks for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from signoff.errors import SignoffError
from slackbot.cards.command_names import DEFAULT_NAMES, CommandNames

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_.-]+")
EVENTS_PATH = "/slack/events"


def path() -> Path:
    """Beside this module in a wheel, at the top of a checkout. Raises FileNotFoundError."""
    here = Path(__file__).resolve().parent
    for found in (here / "manifest.yml", here.parents[1] / "manifest.yml"):
        if found.is_file():
            return found
    raise FileNotFoundError("manifest.yml is missing: the installation is incomplete")


def read() -> dict[str, Any]:
    """Read the Slack app's manifest from its YAML file. Raises FileNotFoundError if that is missing."""
    import yaml  # noqa: PLC0415 - the service does not need it

    found: dict[str, Any] = yaml.safe_load(path().read_text(encoding="utf-8"))
    return found


def bot_scopes() -> list[str]:
    """Return the scopes that the manifest asks for the bot, in its order."""
    scopes: list[str] = read()["oauth_config"]["scopes"]["bot"]
    return scopes


def render(url: str | None = None, names: CommandNames = DEFAULT_NAMES, *, given_as: str = "--url") -> str:
    """The manifest to paste into Slack; with ``url`` for HTTP instead of Socket Mode.

    Raises SignoffError, which says as what the address was given, unless it is an https address.
    """
    import yaml  # noqa: PLC0415 - as above

    manifest = read()
    _call(manifest, names)
    if url is not None:
        _serve_at(manifest, _endpoint(url, given_as))
    text: str = yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True, width=100)
    return text


def _call(manifest: dict[str, Any], names: CommandNames) -> None:
    manifest["display_information"]["name"] = names.label
    manifest["features"]["bot_user"]["display_name"] = _NOT_IN_NAMES.sub("-", names.label.lower())
    for command in manifest["features"]["slash_commands"]:
        command["command"] = names.spelled(command["command"])


def _endpoint(url: str, given_as: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise SignoffError(f"{given_as} must be an address like https://signoff.example.com, not {url!r}")
    base = url.rstrip("/")
    return base if base.endswith(EVENTS_PATH) else f"{base}{EVENTS_PATH}"


def _serve_at(manifest: dict[str, Any], endpoint: str) -> None:
    settings = manifest["settings"]
    settings["socket_mode_enabled"] = False
    settings["interactivity"]["request_url"] = endpoint
    settings["event_subscriptions"]["request_url"] = endpoint
    for command in manifest["features"]["slash_commands"]:
        command["url"] = endpoint
