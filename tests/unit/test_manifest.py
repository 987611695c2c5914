"""The app manifest obeys Slack's rules: https://docs.slack.dev/reference/app-manifest."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field, HttpUrl, ValidationError

from signoff.errors import SignoffError
from slackbot.slack_api import manifest as slack_manifest

MANIFEST = Path(__file__).parents[2] / "manifest.yml"

# The scopes of which an app needs at least one to be sent an event (Slack's page of each event).
SCOPES_OF_EVENT = {
    "app_home_opened": set(),
    "app_mention": {"app_mentions:read"},
    "channel_archive": {"channels:read"},
    "channel_shared": {"channels:read", "groups:read"},
    "channel_unarchive": {"channels:read"},
    "channel_unshared": {"channels:read", "groups:read"},
    "group_archive": {"groups:read"},
    "group_unarchive": {"groups:read"},
    "member_joined_channel": {"channels:read", "groups:read"},
    "member_left_channel": {"channels:read", "groups:read"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
    "subteam_members_changed": {"usergroups:read"},
    "subteam_updated": {"usergroups:read"},
}


class Rule(BaseModel):
    """Slack refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", strict=True)


Address = Annotated[HttpUrl, Field(strict=False)]


class Metadata(Rule):
    major_version: Annotated[int, Field(ge=1, le=2)]
    minor_version: int = 0


class Display(Rule):
    name: Annotated[str, Field(min_length=1, max_length=35)]
    description: Annotated[str, Field(max_length=140)]
    long_description: Annotated[str, Field(min_length=174, max_length=4000)] | None = None
    background_color: Annotated[str, Field(pattern=r"^#(?:[0-9a-fA-F]{3}){1,2}$")] | None = None


class AppHome(Rule):
    home_tab_enabled: bool
    messages_tab_enabled: bool
    messages_tab_read_only_enabled: bool = False


class BotUser(Rule):
    display_name: Annotated[str, Field(max_length=80, pattern=r"^[a-z0-9_.-]+$")]
    always_online: bool = False


class SlashCommand(Rule):
    command: Annotated[str, Field(max_length=32, pattern=r"^/[a-z0-9_-]+$")]
    description: Annotated[str, Field(min_length=1, max_length=2000)]
    usage_hint: Annotated[str, Field(max_length=1000)] | None = None
    should_escape: bool = False
    url: Address | None = None


class Shortcut(Rule):
    name: Annotated[str, Field(min_length=1, max_length=24)]
    type: Literal["global", "message"]
    callback_id: Annotated[str, Field(max_length=255)]
    description: Annotated[str, Field(max_length=150)]


class Features(Rule):
    app_home: AppHome
    bot_user: BotUser
    slash_commands: Annotated[list[SlashCommand], Field(max_length=50)]
    shortcuts: Annotated[list[Shortcut], Field(max_length=10)]


class Scopes(Rule):
    bot: Annotated[list[str], Field(max_length=255)]


class OAuth(Rule):
    scopes: Scopes


class Events(Rule):
    bot_events: Annotated[list[str], Field(max_length=100)]
    request_url: Address | None = None


class Interactivity(Rule):
    is_enabled: bool
    request_url: Address | None = None


class Settings(Rule):
    event_subscriptions: Events
    interactivity: Interactivity
    org_deploy_enabled: bool
    socket_mode_enabled: bool
    token_rotation_enabled: bool


class Manifest(Rule):
    metadata: Annotated[Metadata, Field(alias="_metadata")]
    display_information: Display
    features: Features
    oauth_config: OAuth
    settings: Settings


@pytest.fixture
def raw() -> dict[str, Any]:
    """The manifest as Slack would read it."""
    loaded: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())
    return loaded


@pytest.fixture
def manifest(raw: dict[str, Any]) -> Manifest:
    """The manifest, checked against Slack's schema."""
    return Manifest.model_validate(raw)


def test_schema(raw: dict[str, Any]) -> None:
    """Slack accepts the file: known keys, right types, lengths within the limits."""
    Manifest.model_validate(raw)


def test_schema_refuses(raw: dict[str, Any]) -> None:
    """The check above is not empty: a name over 35 characters is refused."""
    raw["display_information"]["name"] = "x" * 36
    with pytest.raises(ValidationError, match="at most 35"):
        Manifest.model_validate(raw)


def test_commands(manifest: Manifest) -> None:
    """Both commands exist, explain themselves, and deliver mentions as ids."""
    commands = {command.command: command for command in manifest.features.slash_commands}
    assert set(commands) == {"/agent", "/approvals"}
    assert all(command.should_escape and command.usage_hint for command in commands.values())


def test_events_have_their_scopes(manifest: Manifest) -> None:
    """Every subscribed event has a scope that permits it, and is named once."""
    scopes, events = manifest.oauth_config.scopes.bot, manifest.settings.event_subscriptions.bot_events
    assert len(events) == len(set(events))
    for event in events:
        needed = SCOPES_OF_EVENT[event]
        assert not needed or needed & set(scopes), f"{event} needs one of {needed}"


def test_scopes_are_the_least(manifest: Manifest) -> None:
    """The app asks for what it uses and nothing more: it cannot post where it is not a member."""
    scopes = manifest.oauth_config.scopes.bot
    assert len(scopes) == len(set(scopes))
    used = {"chat:write", "commands", "users:read", "files:write", "im:read", "im:write"}
    assert set(scopes) == {*used, *set().union(*SCOPES_OF_EVENT.values())}


def test_clicks_reach_the_app(manifest: Manifest) -> None:
    """Buttons, modals and the inbox work: interactivity, App Home and a way in are switched on."""
    settings = manifest.settings
    assert settings.interactivity.is_enabled
    assert manifest.features.app_home.home_tab_enabled
    assert manifest.features.app_home.messages_tab_enabled
    assert settings.socket_mode_enabled or settings.interactivity.request_url


def test_one_workspace_at_a_time(manifest: Manifest) -> None:
    """Tokens neither rotate nor span an organisation: the service is given one bot token that stays valid."""
    assert not manifest.settings.org_deploy_enabled
    assert not manifest.settings.token_rotation_enabled


# --- what `signoff manifest` prints -----------------------------------------------------------------------


def test_printed_as_it_is(raw: dict[str, Any]) -> None:
    """Without an address it is the file, for Socket Mode, valid by the same rules."""
    printed = yaml.safe_load(slack_manifest.render())
    assert printed == raw
    assert Manifest.model_validate(printed).settings.socket_mode_enabled


@pytest.mark.parametrize(
    "url", ["https://s.example.com", "https://s.example.com/", "https://s.example.com/slack/events"]
)
def test_printed_for_an_address(raw: dict[str, Any], url: str) -> None:
    """With an address Slack calls it in all four places, Socket Mode is off, and nothing else changes."""
    text = slack_manifest.render(url)
    assert text.count("https://s.example.com/slack/events") == 4
    manifest = Manifest.model_validate(yaml.safe_load(text))
    settings = manifest.settings
    called = [command.url for command in manifest.features.slash_commands]
    called += [settings.event_subscriptions.request_url, settings.interactivity.request_url]
    assert [str(each) for each in called] == ["https://s.example.com/slack/events"] * 4
    assert not settings.socket_mode_enabled
    assert manifest.oauth_config == Manifest.model_validate(raw).oauth_config


@pytest.mark.parametrize(
    "url", ["http://s.example.com", "s.example.com", "https://", "https://s.example.com/?a=b", ""]
)
def test_an_address_slack_would_not_take(url: str) -> None:
    """Only https, with a host, without a query: everything else is refused before Slack does."""
    with pytest.raises(SignoffError, match="--url"):
        slack_manifest.render(url)
