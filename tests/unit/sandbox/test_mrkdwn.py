"""Texts as Slack keeps them."""

from __future__ import annotations

import pytest

from signoff_demo.sandbox import demo_workspace
from signoff_demo.sandbox.mrkdwn import escaped_blocks, escaped_mrkdwn, escaped_plain


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("a & b < c > d", "a &amp; b &lt; c &gt; d"),
        ("&amp; &lt;b&gt;", "&amp; &lt;b&gt;"),
        ("<@U0ADA> <#C0REVIEW|x> <!here>", "<@U0ADA> <#C0REVIEW|x> <!here>"),
        ("<https://x.example/?a=1&b=2|go>", "<https://x.example/?a=1&amp;b=2|go>"),
        ("<script>", "&lt;script&gt;"),
    ],
)
def test_mrkdwn_keeps_control_sequences_and_escapes_the_rest(sent: str, kept: str) -> None:
    """What the app sends as mrkdwn comes back escaped, except live mentions and links."""
    assert escaped_mrkdwn(sent) == kept


def test_plain_text_has_no_live_sequences() -> None:
    """A mention in plain text is only characters."""
    assert escaped_plain("<@U0ADA> & co") == "&lt;@U0ADA&gt; &amp; co"


def test_values_are_returned_as_they_were_sent() -> None:
    """A button's value and ids are never escaped, its label is."""
    button = {
        "type": "button",
        "value": "a&b",
        "action_id": "<x>",
        "text": {"type": "plain_text", "text": "a&b"},
    }
    kept = escaped_blocks([{"type": "actions", "elements": [button]}])[0]["elements"][0]
    assert (kept["value"], kept["action_id"], kept["text"]["text"]) == ("a&b", "<x>", "a&amp;b")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("hi @linus", "hi <@U0LINUS>"),
        ("ask @finance in #refund-reviews", "ask <!subteam^S0FINANCE> in <#C0REVIEW|refund-reviews>"),
        ("a<b & me@linus.example", "a&lt;b &amp; me@linus.example"),
        ("<@U0NOBODY> <@U0ADA>", "&lt;@U0NOBODY&gt; <@U0ADA>"),
        ("see https://x.example/a", "see <https://x.example/a>"),
    ],
)
def test_what_people_type_is_completed_and_escaped(typed: str, kept: str) -> None:
    """A person cannot type a live control sequence, only complete a name that exists."""
    assert demo_workspace().as_typed(typed) == kept
