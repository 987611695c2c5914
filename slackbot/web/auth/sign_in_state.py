"""The `state` of a sign-in with Slack: nobody else can make one, so only browsers that we sent away come back."""

from __future__ import annotations

import hashlib
import hmac
import secrets

LIFE = 600
"""Seconds."""


def new_state(secret: str, now: float) -> str:
    """``secret``: the app's; every process has it."""
    text = f"{int(now) + LIFE}.{secrets.token_urlsafe(24)}"
    return f"{text}.{_mark(secret, text)}"


def is_valid(state: str, secret: str, now: float) -> bool:
    """Whether we made it, at most ten minutes ago."""
    text, _, mark = state.rpartition(".")
    if not hmac.compare_digest(_mark(secret, text).encode(), mark.encode()):
        return False
    return now < int(text.partition(".")[0])


def _mark(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), f"sign-in state {text}".encode(), hashlib.sha256).hexdigest()
