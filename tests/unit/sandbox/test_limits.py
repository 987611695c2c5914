"""Slack's documented limits: what stays within them is taken, one step beyond is refused with Slack's code."""

from __future__ import annotations

from typing import Any

import pytest

from signoff_demo.sandbox.limits import MESSAGE_CHARACTERS, check_blocks, check_metadata, check_view
from signoff_demo.sandbox.refusal import SandboxRefusal


def plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text}


def section(text: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}, **more}


def button(action_id: str = "go", **more: Any) -> dict[str, Any]:
    return {"type": "button", "action_id": action_id, "text": plain("Go"), **more}


def actions(*elements: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "actions", "elements": list(elements), **more}


def typed(**more: Any) -> dict[str, Any]:
    return {"type": "input", "label": plain("Why"), "element": {"type": "plain_text_input", **more}}


def select(count: int, value: str = "v") -> dict[str, Any]:
    options = [{"text": plain(f"o{n}"), "value": f"{value}{n}"} for n in range(count)]
    return {"type": "static_select", "action_id": "s", "options": options}


def confirm(title: str = "t", text: str = "x", yes: str = "y") -> dict[str, Any]:
    return {"title": plain(title), "text": plain(text), "confirm": plain(yes), "deny": plain("no")}


def modal(*blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "modal", "title": plain("T"), "submit": plain("S"), "blocks": list(blocks), **more}


WITHIN = {
    "50 blocks": [section()] * 50,
    "section of 3000": [section("x" * 3000)],
    "header of 150": [{"type": "header", "text": plain("x" * 150)}],
    "10 fields": [{"type": "section", "fields": [plain("x")] * 10}],
    "25 actions": [actions(*(button(f"a{n}") for n in range(25)))],
    "context of 10": [{"type": "context", "elements": [plain("x")] * 10}],
    "button text of 75": [actions(button(text=plain("x" * 75)))],
    "button value of 2000": [actions(button(value="x" * 2000))],
    "confirm at its limits": [actions(button(confirm=confirm("t" * 100, "x" * 300, "y" * 30)))],
    "action_id of 255": [actions(button("a" * 255))],
    "100 options": [actions(select(100))],
    "preformatted": [
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "{}"}]}],
        }
    ],
    "markdown": [{"type": "markdown", "text": "x" * 12_000}],
}
BEYOND = {
    "51 blocks": [section()] * 51,
    "section of 3001": [section("x" * 3001)],
    "section of 3000 that escapes to more": [section("&" * 1000)],
    "header of 151": [{"type": "header", "text": plain("x" * 151)}],
    "header in mrkdwn": [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}],
    "11 fields": [{"type": "section", "fields": [plain("x")] * 11}],
    "field of 2001": [{"type": "section", "fields": [plain("x" * 2001)]}],
    "section of nothing": [{"type": "section"}],
    "empty text": [section("")],
    "no actions": [actions()],
    "26 actions": [actions(*(button(f"a{n}") for n in range(26)))],
    "two buttons of one id": [actions(button(), button())],
    "two blocks of one id": [section(block_id="b"), section(block_id="b")],
    "context of 11": [{"type": "context", "elements": [plain("x")] * 11}],
    "button text of 76": [actions(button(text=plain("x" * 76)))],
    "button value of 2001": [actions(button(value="x" * 2001))],
    "button in an unknown style": [actions(button(style="warning"))],
    "button with an unknown field": [actions(button(colour="red"))],
    "confirm title of 101": [actions(button(confirm=confirm(title="t" * 101)))],
    "confirm text of 301": [actions(button(confirm=confirm(text="t" * 301)))],
    "confirm button of 31": [actions(button(confirm=confirm(yes="t" * 31)))],
    "action_id of 256": [actions(button("a" * 256))],
    "block_id of 256": [section(block_id="b" * 256)],
    "101 options": [actions(select(101))],
    "option value of 76": [actions(select(1, "v" * 76))],
    "no options": [actions(select(0))],
    "overflow of 6": [actions({**select(6), "type": "overflow"})],
    "11 checkboxes": [actions({**select(11), "type": "checkboxes"})],
    "11 radio buttons": [actions({**select(11), "type": "radio_buttons"})],
    "text input in actions": [actions({"type": "plain_text_input", "action_id": "t"})],
    "initial_value of 3001": [typed(initial_value="x" * 3001)],
    "max_length of 3001": [typed(max_length=3001)],
    "unknown block": [{"type": "hologram"}],
    "block without type": [{"text": plain("x")}],
    "alert outside a modal": [{"type": "alert", "text": plain("x")}],
    "two tables": [{"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}] * 2,
    "empty rich text piece": [
        {
            "type": "rich_text",
            "elements": [{"type": "rich_text_section", "elements": [{"type": "text", "text": ""}]}],
        }
    ],
    "null where text belongs": [section(block_id=None)],
}
TEXT_OVER_ALL = [section("x" * 3000)] * (MESSAGE_CHARACTERS // 3000) + [
    section("x" * (MESSAGE_CHARACTERS % 3000))
]


@pytest.mark.parametrize("blocks", WITHIN.values(), ids=WITHIN.keys())
def test_blocks_at_their_limit_are_taken(blocks: list[dict[str, Any]]) -> None:
    """A message exactly at a documented limit is accepted."""
    check_blocks(blocks, "message")


@pytest.mark.parametrize("blocks", BEYOND.values(), ids=BEYOND.keys())
def test_blocks_beyond_a_limit_are_refused(blocks: list[dict[str, Any]]) -> None:
    """A message beyond a documented limit is refused as invalid_blocks, and the place is named."""
    with pytest.raises(SandboxRefusal) as refused:
        check_blocks(blocks, "message")
    assert refused.value.code == "invalid_blocks"
    assert all("[json-pointer:/blocks" in message for message in refused.value.body()["errors"])


def test_text_over_all_blocks_is_bounded() -> None:
    """All blocks together may hold 13,200 characters and not one more."""
    check_blocks(TEXT_OVER_ALL, "message")
    with pytest.raises(SandboxRefusal, match="msg_blocks_too_long"):
        check_blocks([*TEXT_OVER_ALL, section("x")], "message")


VIEWS_BEYOND = {
    "title of 25": modal(section(), title=plain("x" * 25)),
    "no title": {"type": "modal", "blocks": [section()]},
    "submit of 25": modal(section(), submit=plain("x" * 25)),
    "private_metadata of 3001": modal(section(), private_metadata="x" * 3001),
    "callback_id of 256": modal(section(), callback_id="x" * 256),
    "101 blocks": modal(*[section()] * 101),
    "no blocks": modal(),
    "markdown": modal({"type": "markdown", "text": "x"}),
    "table": modal({"type": "table", "rows": [[{"type": "raw_text", "text": "x"}]]}),
    "input without submit": {"type": "modal", "title": plain("T"), "blocks": [typed()]},
    "unknown field": modal(section(), colour="red"),
}


@pytest.mark.parametrize("view", VIEWS_BEYOND.values(), ids=VIEWS_BEYOND.keys())
def test_views_beyond_a_limit_are_refused(view: dict[str, Any]) -> None:
    """A modal beyond a documented limit is refused as invalid_arguments."""
    with pytest.raises(SandboxRefusal, match="invalid_arguments"):
        check_view(view, "modal")


def test_views_at_their_limits_are_taken() -> None:
    """A modal exactly at its limits, and an alert in it, are accepted; so is an empty Home."""
    blocks = [section()] * 98 + [typed(initial_value="x" * 3000), {"type": "alert", "text": plain("x")}]
    check_view(modal(*blocks, title=plain("x" * 24), private_metadata="x" * 3000), "modal")
    check_view({"type": "home", "blocks": []}, "home")


def test_a_view_of_too_many_bytes_is_refused() -> None:
    """A view beyond 250 KB is view_too_large, whatever its blocks."""
    with pytest.raises(SandboxRefusal, match="view_too_large"):
        check_view(modal(*[section("x" * 3000)] * 90), "modal")


@pytest.mark.parametrize(
    "metadata", [{"event_type": "x"}, {"event_type": "x", "event_payload": []}, {"a": 1}]
)
def test_malformed_metadata_is_refused(metadata: dict[str, Any]) -> None:
    """Message metadata needs a type and an object."""
    with pytest.raises(SandboxRefusal, match="invalid_metadata_format"):
        check_metadata(metadata)
