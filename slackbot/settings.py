"""Configuration from the environment, `.env`, and `*_FILE`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import AliasChoices, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from agent.database.address import Address
from agent.database.errors import DatabaseUnusable
from agent.domain import checkpoints
from agent.domain.policy import Policy
from agent.domain.webhook_urls import Network, networks
from signoff.errors import SignoffError
from signoff.json_form import phrase
from slackbot.cards.command_names import AGENT, APPROVALS, LABEL, CommandNames
from slackbot.masking import clean_now
from slackbot.outbound.mail_server import MailServer, sender_address

SECRETS = (
    "DATABASE_URL",
    "SIGNOFF_OWNER_URL",
    "SLACK_BOT_TOKEN",
    "SLACK_APP_TOKEN",
    "SLACK_SIGNING_SECRET",
    "SLACK_CLIENT_SECRET",
    "OPENAI_API_KEY",
    "SIGNOFF_SMTP_URL",
)

OURS = "SIGNOFF_"
SHARED = ("SLACK_", "OPENAI_", "DATABASE_")
"""Other programs use these, too: a variable is reported only if the probably intended setting is missing."""
ELSEWHERE = frozenset(
    {
        "SIGNOFF_HOME",
        "SIGNOFF_FAULT",
        "SIGNOFF_SHOP_URL",
        "SIGNOFF_URL",
        "SIGNOFF_KEY",
        "SIGNOFF_KEY_FILE",
        "SIGNOFF_SESSION",
    }
)
"""Read elsewhere."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SLACK_API = "https://slack.com/api/"


class SettingsError(SignoffError):
    """One line per missing or wrong setting."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class Role(StrEnum):
    """A part of the service that a process takes on; by default it takes on all of them."""

    WEB = "web"
    WORKER = "worker"
    SCHEDULER = "scheduler"


_COMMAND = r"^/[a-z0-9_-]{1,31}$"
_COMMAND_WORDS = "must be a slash and at most 31 lower-case letters, digits, `-` and `_`, such as `/eu-agent`"
_NAME = r"^[a-z_][a-z0-9_]{0,62}$"
_NAME_WORDS = (
    "must have at most 63 lower-case letters, digits and `_`, and begin with a letter or `_`, "
    "such as `signoff`"
)


def _named(name: str, **more: Any) -> Any:
    return Field(validation_alias=AliasChoices(name), **more)


class Settings(BaseSettings):
    """A process's configuration, checked when it is read; secrets do not show in its repr."""

    model_config = SettingsConfigDict(extra="ignore", hide_input_in_errors=True, env_ignore_empty=True)

    database_url: SecretStr | None = _named("DATABASE_URL", default=None)
    owner_url: SecretStr | None = _named("SIGNOFF_OWNER_URL", default=None)
    db_schema: str = _named("SIGNOFF_DB_SCHEMA", default="signoff", pattern=_NAME)
    db_role: str = _named("SIGNOFF_DB_ROLE", default="signoff_app", pattern=_NAME)

    slack_bot_token: SecretStr | None = _named("SLACK_BOT_TOKEN", default=None)
    slack_app_token: SecretStr | None = _named("SLACK_APP_TOKEN", default=None)
    slack_signing_secret: SecretStr | None = _named("SLACK_SIGNING_SECRET", default=None)
    slack_client_id: str | None = _named("SLACK_CLIENT_ID", default=None)
    slack_client_secret: SecretStr | None = _named("SLACK_CLIENT_SECRET", default=None)
    slack_api_url: str = _named("SLACK_API_URL", default=SLACK_API)

    openai_api_key: SecretStr | None = _named("OPENAI_API_KEY", default=None)
    openai_base_url: str | None = _named("OPENAI_BASE_URL", default=None)
    model: str = _named("SIGNOFF_MODEL", default="gpt-5-mini")

    agents: Annotated[tuple[str, ...], NoDecode] = _named("SIGNOFF_AGENTS", default=())
    checkpoints: Path = _named("SIGNOFF_CHECKPOINTS", default=Path("checkpoints.toml"))
    channel: str | None = _named("SIGNOFF_CHANNEL", default=None)
    agent_command: str = _named("SIGNOFF_AGENT_COMMAND", default=AGENT, pattern=_COMMAND)
    approvals_command: str = _named("SIGNOFF_APPROVALS_COMMAND", default=APPROVALS, pattern=_COMMAND)
    label: str = _named("SIGNOFF_LABEL", default=LABEL, min_length=1, max_length=35)
    tell_requester: bool = _named("SIGNOFF_TELL_REQUESTER", default=True)

    smtp_url: SecretStr | None = _named("SIGNOFF_SMTP_URL", default=None)
    smtp_from: str | None = _named("SIGNOFF_SMTP_FROM", default=None)
    facts_secret: SecretStr | None = _named("SIGNOFF_FACTS_SECRET", default=None)
    webhook_networks: Annotated[tuple[Network, ...], NoDecode] = _named(
        "SIGNOFF_WEBHOOK_NETWORKS", default=()
    )

    host: str = _named("SIGNOFF_HOST", default="127.0.0.1")
    port: int = _named("SIGNOFF_PORT", default=8080, ge=0, le=65535)
    public_url: str | None = _named("SIGNOFF_PUBLIC_URL", default=None)
    cors_origins: Annotated[tuple[str, ...], NoDecode] = _named("SIGNOFF_CORS_ORIGINS", default=())
    health_port: int | None = _named("SIGNOFF_HEALTH_PORT", default=None, ge=0, le=65535)
    roles: Annotated[frozenset[Role], NoDecode] = _named("SIGNOFF_ROLES", default=frozenset(Role))
    concurrency: int = _named("SIGNOFF_CONCURRENCY", default=20, ge=1, le=500)
    trusted_proxies: Annotated[tuple[Network, ...], NoDecode] = _named("SIGNOFF_TRUSTED_PROXIES", default=())
    drain_seconds: float = _named("SIGNOFF_DRAIN_SECONDS", default=30.0, ge=0, le=3600)
    pre_stop_seconds: float = _named("SIGNOFF_PRE_STOP_SECONDS", default=0.0, ge=0, le=600)
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = _named("SIGNOFF_LOG_LEVEL", default="INFO")
    log_format: Literal["text", "json"] = _named("SIGNOFF_LOG_FORMAT", default="text")

    unknown: tuple[str, ...] = ()
    """Unknown names, each with the probably intended setting."""

    @field_validator("database_url", "owner_url")
    @classmethod
    def _address(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            try:
                Address.read(value.get_secret_value())
            except DatabaseUnusable as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("slack_bot_token")
    @classmethod
    def _bot_token(cls, value: SecretStr | None) -> SecretStr | None:
        return _shaped(value, "xoxb-")

    @field_validator("slack_app_token")
    @classmethod
    def _app_token(cls, value: SecretStr | None) -> SecretStr | None:
        return _shaped(value, "xapp-")

    @field_validator("smtp_url")
    @classmethod
    def _mail_server(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            MailServer.read(value.get_secret_value())
        return value

    @field_validator("smtp_from")
    @classmethod
    def _mail_sender(cls, value: str | None) -> str | None:
        return None if value is None else sender_address(value)

    @field_validator("webhook_networks", "trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, value: Any) -> Any:
        return networks(value) if isinstance(value, str) else value

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @field_validator("agents", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return tuple(_words(value)) if isinstance(value, str) else value

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _origins(cls, value: Any) -> Any:
        return (
            tuple(_public_address(each).lower() for each in _words(value))
            if isinstance(value, str)
            else value
        )

    @field_validator("public_url")
    @classmethod
    def _public(cls, value: str | None) -> str | None:
        return None if value is None else _public_address(value)

    @field_validator("roles", mode="before")
    @classmethod
    def _roles(cls, value: Any) -> Any:
        named = _words(value) if isinstance(value, str) else value
        if not named:
            raise ValueError("name at least one of web, worker, scheduler")
        if unknown := sorted(set(named) - set(Role)):
            raise ValueError(f"there is no role {', '.join(unknown)}; the roles are web, worker, scheduler")
        return frozenset(Role(name) for name in named)

    @field_validator("slack_api_url")
    @classmethod
    def _with_slash(cls, value: str) -> str:
        if not value.startswith(("https://", "http://")):
            raise ValueError("must begin with https:// (or http:// for a local stand-in)")
        return value if value.endswith("/") else f"{value}/"

    @model_validator(mode="after")
    def _whole(self) -> Settings:
        if (self.slack_client_id is None) != (self.slack_client_secret is None):
            raise ValueError("SLACK_CLIENT_ID and SLACK_CLIENT_SECRET belong together: set both or neither")
        if self.agent_command == self.approvals_command:
            raise ValueError("SIGNOFF_AGENT_COMMAND and SIGNOFF_APPROVALS_COMMAND must differ")
        return self

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Secrets are stars by their type; a password within an address is masked."""
        for name, value in super().__repr_args__():
            yield name, clean_now(value) if isinstance(value, str) else value

    @property
    def commands(self) -> CommandNames:
        return CommandNames(self.agent_command, self.approvals_command, self.label)

    @property
    def no_mail(self) -> str | None:
        missing = [
            name
            for name, value in (
                ("SIGNOFF_SMTP_URL", self.smtp_url),
                ("SIGNOFF_SMTP_FROM", self.smtp_from),
                ("SIGNOFF_PUBLIC_URL", self.public_url),
            )
            if value is None
        ]
        return f"set {' and '.join(missing)}" if missing else None

    def read_policy(self, source: str, name: str, *, now: datetime | None = None) -> Policy:
        """Parse the policy and check that these settings can enforce it. Raises PolicyError.

        ``now``: for a policy that is not applied yet.
        """
        return checkpoints.load(
            source, filename=name, no_mail=self.no_mail, no_lookups=self.no_lookups, now=now
        )

    @property
    def no_lookups(self) -> str | None:
        return "set SIGNOFF_FACTS_SECRET" if self.facts_secret is None else None

    @property
    def socket_mode(self) -> bool:
        """Whether the service connects with an app-level token; else Slack calls `/slack/events`."""
        return self.slack_app_token is not None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """`read` has already merged all sources."""
        return (init_settings,)


def read(
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> Settings:
    """Merge ``extra`` (the command line), the environment, then `.env` in the directory. Raises SettingsError."""
    where = (folder or Path.cwd()) / ".env"
    try:
        given = {name: value for name, value in dotenv_values(where).items() if value}
    except (OSError, UnicodeError) as error:
        raise SettingsError([f"cannot read {where}: {error}"]) from None
    given |= {
        name: value for name, value in (os.environ if environment is None else environment).items() if value
    }
    given |= extra or {}
    problems = _read_files(given)
    if problems:
        raise SettingsError(problems)
    unknown = tuple(_unknown(given))
    try:
        return Settings(**given | {"unknown": unknown})  # type: ignore[arg-type]
    except ValidationError as error:
        raise SettingsError([_in_one_line(problem) for problem in error.errors()]) from None


def _unknown(given: Collection[str]) -> Iterator[str]:
    fields = Settings.model_fields.values()
    aliases = [each.validation_alias for each in fields]
    known = {str(name) for each in aliases if isinstance(each, AliasChoices) for name in each.choices}
    known |= {f"{name}_FILE" for name in SECRETS} | ELSEWHERE
    missing = known - set(given)
    for name in sorted(set(given) - known):
        if name.startswith(OURS):
            meant = get_close_matches(name, known, n=1, cutoff=0.75)
            yield f"{name} (did you mean {meant[0]}?)" if meant else name
        elif name.startswith(SHARED) and (meant := get_close_matches(name, missing, n=1, cutoff=0.83)):
            yield f"{name} (did you mean {meant[0]}?)"


def _read_files(given: dict[str, str | Any]) -> list[str]:
    """Returns the problems."""
    problems = []
    for name in SECRETS:
        path = given.pop(f"{name}_FILE", None)
        if path is None:
            continue
        if name in given:
            problems.append(f"{name} and {name}_FILE are both set; keep one")
            continue
        try:
            given[name] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not text"
            problems.append(f"{name}_FILE: cannot read {path}: {why}")
    return problems


def _in_one_line(problem: Any) -> str:
    name = problem["loc"][0] if problem["loc"] else ""
    words = phrase(problem)
    if problem["type"] == "string_pattern_mismatch":
        words = _COMMAND_WORDS if problem["ctx"]["pattern"] == _COMMAND else _NAME_WORDS
    return f"{name}: {words}" if name else words


def _public_address(value: str) -> str:
    try:
        parts, _ = urlsplit(value), urlsplit(value).port
    except ValueError:
        raise ValueError("is not an address; https://signoff.example.com is one") from None
    host = parts.hostname or ""
    if not host or parts.username or parts.path.strip("/") or "?" in value or "#" in value:
        raise ValueError(
            "must be only scheme and host, such as https://signoff.example.com: no path, no query"
        )
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK):
        raise ValueError("must begin with https:// (http:// only for this machine itself)")
    return f"{parts.scheme}://{parts.netloc}"


def _words(text: str) -> list[str]:
    return [word for word in text.replace(",", " ").split() if word]


def _shaped(token: SecretStr | None, prefix: str) -> SecretStr | None:
    if token is not None and not token.get_secret_value().startswith(prefix):
        raise ValueError(f"must begin with {prefix}")
    return token
