"""What Slack's error codes mean for a message. Unknown: retry, and notify operators."""

from __future__ import annotations

from enum import Enum


class Meaning(Enum):
    """A meaning of Slack's error codes: who has to do what before the message can be sent, if ever."""

    SLOW_DOWN = "Slack wants silence for a while"
    PASSING = "Slack's own trouble; it may have taken the message all the same"
    CHANNEL = "people have to mend the channel"
    TOKEN = "people have to mend the app's token"  # noqa: S105 - no password
    SUSPENDED = "administrators have to let the app in again"
    MESSAGE = "Slack never takes this message"
    CLOSED = "the posted message cannot be changed, or answered in its thread, any more"
    UNKNOWN = "a code that is not listed here"


_CODES = {
    Meaning.SLOW_DOWN: ("rate_limited", "ratelimited"),
    Meaning.PASSING: ("fatal_error", "internal_error", "request_timeout", "service_unavailable"),
    Meaning.CHANNEL: ("channel_not_found", "is_archived", "not_in_channel", "restricted_action"),
    Meaning.TOKEN: (
        "account_inactive",
        "invalid_auth",
        "missing_scope",
        "no_permission",
        "not_allowed_token_type",
        "not_authed",
        "token_expired",
        "token_revoked",
    ),
    Meaning.SUSPENDED: ("ekm_access_denied",),
    Meaning.MESSAGE: ("msg_blocks_too_long", "msg_too_long", "no_text"),
    Meaning.CLOSED: ("cant_update_message", "edit_window_closed", "message_not_found", "thread_not_found"),
}
_MEANINGS = {code: meaning for meaning, codes in _CODES.items() for code in codes}
_OF_POSTED = {"thread_not_found": ("chat.postMessage", "conversations.replies")}
_AMBIGUOUS = {"no_permission", "not_allowed_token_type"}
_OF_A_MESSAGE = ("invalid_blocks", "invalid_metadata", "metadata_")  # prefixes of codes


def meaning_of(code: str, method: str) -> Meaning:
    """Of a message, `no_permission` may mean its channel."""
    if code.startswith(_OF_A_MESSAGE):
        return Meaning.MESSAGE
    found = _MEANINGS.get(code, Meaning.UNKNOWN)
    if found is Meaning.CLOSED and method not in _OF_POSTED.get(code, ("chat.update",)):
        return Meaning.UNKNOWN
    return Meaning.UNKNOWN if code in _AMBIGUOUS and method.startswith("chat.") else found
