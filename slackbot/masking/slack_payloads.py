"""The last search of what goes to Slack: masks what a surface forgot.

It knows only the shapes of tokens. Masks are no longer than what they replace, because Slack limits every text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from slack_sdk.models.basic_objects import JsonObject

from signoff.masks import Find, mask
from slackbot.masking.views import off_the_loop

T = TypeVar("T")

# Ids, states and addresses that Slack or we read back: a mask would break them, and nobody else writes there.
_NOT_SHOWN = frozenset(
    {
        "action_id",
        "block_id",
        "callback_id",
        "channel",
        "external_id",
        "file",
        "hash",
        "metadata",
        "name",
        "parse",
    }
    | {
        "private_metadata",
        "style",
        "thread_ts",
        "token",
        "trigger_id",
        "ts",
        "type",
        "user",
        "user_id",
        "value",
    }
    | {"view_id", "channel_id", "usergroup_id", "message_ts", "response_type", "response_action"}
)
_ADDRESSES = frozenset({"url", "image_url", "slack_file", "thumb_url"})


async def clean_payload(payload: T) -> T:
    """Mask tokens in a payload for Slack; ids and states that are read back stay as they are."""
    if not payload:  # a bare acknowledgement waits for no thread
        return payload
    return await off_the_loop(lambda find: _clean(payload, find))


def _clean(value: Any, find: Find, key: str = "") -> Any:
    match value:
        case str():
            return value if key in _NOT_SHOWN else _masked(value, find, key)
        case JsonObject():
            return _clean(value.to_dict(), find)
        case Mapping():
            return {name: _clean(member, find, str(name)) for name, member in value.items()}
        case list() | tuple():
            return [_clean(item, find, key) for item in value]
        case _:
            return value


def _masked(text: str, find: Find, key: str) -> str:
    spans = find(text)
    if not spans:
        return text
    if key in _ADDRESSES:
        return "https://redacted.invalid/"
    return mask(text, spans, tight=True)
