"""What Slack's error codes mean, over all codes that its reference lists for posts and changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slackbot.slack_api.error_codes import Meaning, meaning_of

POST, UPDATE = "chat.postMessage", "chat.update"
OPEN, PUBLISH = "views.open", "views.publish"
TROUBLESHOOTING = Path(__file__).parents[2] / "docs" / "troubleshooting.md"

OF_EVERY_METHOD = """
access_denied accesslimited account_inactive app_access_restricted deprecated_endpoint ekm_access_denied
enterprise_is_restricted fatal_error internal_error invalid_arg_name invalid_arguments invalid_array_arg invalid_auth
invalid_charset invalid_form_data invalid_post_type method_deprecated missing_post_type missing_scope no_permission
not_allowed_token_type not_authed org_login_required rate_limited ratelimited request_timeout service_unavailable
team_access_not_granted team_added_to_org token_expired token_revoked two_factor_setup_required
"""
OF_BOTH = """
as_user_not_supported channel_not_found external_channel_migrating invalid_attachments invalid_blocks
invalid_blocks_format invalid_metadata_format invalid_metadata_schema is_archived metadata_must_be_sent_from_app
metadata_too_large msg_blocks_too_long msg_too_long no_text not_in_channel slack_connect_canvas_sharing_blocked
slack_connect_file_link_sharing_blocked slack_connect_lists_sharing_blocked too_many_attachments too_many_contact_cards
"""
OF_POSTS = """
attachment_payload_limit_exceeded cannot_reply_to_message channel_type_not_supported duplicate_channel_not_found
duplicate_message_not_found markdown_text_conflict message_limit_exceeded messages_tab_disabled restricted_action
restricted_action_non_threadable_channel restricted_action_read_only_channel restricted_action_thread_locked
restricted_action_thread_only_channel team_not_found
"""
OF_CHANGES = """
block_mismatch cant_broadcast_message cant_update_message edit_window_closed file_share_limit_reached is_inactive
message_not_found no_dual_broadcast_content_update streaming_state_conflict update_failed
"""
OF_FILES = """
blocked_file_type file_deleted file_is_deleted file_not_found max_file_sharing_exceeded posting_to_channel_denied
slack_connect_blocked_file_type slack_connect_clip_sharing_blocked slack_connect_file_upload_sharing_blocked
unable_to_share_files
"""
OF_OPENING = """
duplicate_external_id exchanged_trigger_id expired_trigger_id invalid_trigger_id push_limit_reached view_too_large
"""
OF_PUBLISHING = (
    "duplicate_external_id hash_conflict missing_profile_id not_enabled not_implemented view_too_large"
)
ALSO_OF_CHANGES = "markdown_text_conflict message_limit_exceeded team_not_found"
DOCUMENTED = {
    POST: f"{OF_EVERY_METHOD} {OF_BOTH} {OF_POSTS}".split(),
    UPDATE: f"{OF_EVERY_METHOD} {OF_BOTH} {OF_CHANGES} {OF_FILES} {ALSO_OF_CHANGES}".split(),
    OPEN: f"{OF_EVERY_METHOD} {OF_OPENING}".split(),
    PUBLISH: f"{OF_EVERY_METHOD} {OF_PUBLISHING}".split(),
}

KNOWN = {
    Meaning.SLOW_DOWN: "rate_limited ratelimited",
    Meaning.PASSING: "fatal_error internal_error request_timeout service_unavailable",
    Meaning.CHANNEL: "channel_not_found is_archived not_in_channel",
    Meaning.TOKEN: """
        account_inactive invalid_auth missing_scope not_authed token_expired token_revoked""",
    Meaning.SUSPENDED: "ekm_access_denied",
    Meaning.MESSAGE: """
        invalid_blocks invalid_blocks_format invalid_metadata_format invalid_metadata_schema
        metadata_must_be_sent_from_app metadata_too_large msg_blocks_too_long msg_too_long no_text""",
}
ALSO = {
    POST: {"restricted_action": Meaning.CHANNEL},
    UPDATE: dict.fromkeys(("cant_update_message", "edit_window_closed", "message_not_found"), Meaning.CLOSED),
}


@pytest.mark.parametrize("method", [POST, UPDATE])
def test_every_documented_code(method: str) -> None:
    """Only codes that speak about the message itself give it up; every code that is not listed is unknown."""
    expected = {code: meaning for meaning, codes in KNOWN.items() for code in codes.split()} | ALSO[method]
    assert expected.keys() <= set(DOCUMENTED[method])
    assert {code: meaning_of(code, method) for code in DOCUMENTED[method]} == {
        code: expected.get(code, Meaning.UNKNOWN) for code in DOCUMENTED[method]
    }


@pytest.mark.parametrize(
    "code", ["", "channel_is_dreaming", "blocks_invalid", "no_texts", "INVALID_BLOCKS", "invalid"]
)
@pytest.mark.parametrize("method", [POST, UPDATE, "conversations.history"])
def test_what_nobody_has_documented(code: str, method: str) -> None:
    """A code that Slack adds tomorrow is unknown, whatever it looks like."""
    assert meaning_of(code, method) is Meaning.UNKNOWN


def test_families_of_codes() -> None:
    """New codes about blocks and metadata speak about the message, too."""
    assert meaning_of("invalid_blocks_nesting", POST) is Meaning.MESSAGE
    assert meaning_of("metadata_too_deep", UPDATE) is Meaning.MESSAGE


@pytest.mark.parametrize("method", [POST, "conversations.replies"])
def test_only_a_change_finds_its_message_closed(method: str) -> None:
    """A post or a look-up has no old message that could be closed."""
    assert meaning_of("message_not_found", method) is Meaning.UNKNOWN


def _table_rows() -> list[list[str]]:
    """The first two columns of what operators read about Slack's errors."""
    section = TROUBLESHOOTING.read_text(encoding="utf-8").split("## What Slack does not take", 1)[1]
    rows = section.split("\n#", 1)[0].splitlines()
    return [line.split("|")[1:3] for line in rows if line.startswith("| ")]


@pytest.mark.parametrize(("method", "own"), [(OPEN, OF_OPENING), (PUBLISH, OF_PUBLISHING)])
def test_operators_read_what_follows_from_errors_of_views(method: str, own: str) -> None:
    """`docs/troubleshooting.md` names each code that only forms, or only App Homes, are refused with."""
    documented = " ".join(codes for methods, codes in _table_rows() if f"`{method}`" in methods)
    assert set(own.split()) <= set(re.findall(r"`(\w+)`", documented))


@pytest.mark.parametrize("method", [POST, UPDATE])
def test_the_table_for_operators_has_every_documented_code(method: str) -> None:
    """`docs/troubleshooting.md` says of each code what follows, in the same classes as the service."""
    rows = _table_rows()
    documented = {code: meaning.strip() for meaning, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    words = {
        Meaning.SLOW_DOWN: "slow down",
        Meaning.PASSING: "passing",
        Meaning.CHANNEL: "channel",
        Meaning.TOKEN: "token",
        Meaning.SUSPENDED: "suspended",
        Meaning.MESSAGE: "message",
        Meaning.CLOSED: "gone",
        Meaning.UNKNOWN: "other",
    }
    assert {code: documented.get(code) for code in DOCUMENTED[method]} == {
        code: words[meaning_of(code, method)] for code in DOCUMENTED[method]
    }
