"""The Web API's methods by name, with their tokens, scopes and tiers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.workspace import SandboxWorkspace


class TokenKind(Enum):
    """A kind of token that a method of the Web API needs."""

    NONE = "none"
    BOT = "bot"
    APP = "app"


Handler = Callable[[SandboxWorkspace, Arguments], Json]


@dataclass(frozen=True)
class Method:
    """`tier` is Slack's rate limit tier (1 to 4), or None for methods with their own limit."""

    name: str
    handler: Handler
    token: TokenKind
    scopes: tuple[str, ...]
    tier: int | None


METHODS: dict[str, Method] = {}


def method(
    name: str, *scopes: str, tier: int | None = 3, token: TokenKind = TokenKind.BOT
) -> Callable[[Handler], Handler]:
    """Register a handler under Slack's method name; any one of `scopes` is sufficient."""

    def register(handler: Handler) -> Handler:
        METHODS[name] = Method(name, handler, token, scopes, tier)
        return handler

    return register
