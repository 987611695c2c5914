"""Every documented block and element, with its limits.

Source: Slack's Block Kit reference (blocks, block elements, composition objects), November 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from signoff_demo.sandbox.shapes import (
    Check,
    anything,
    array,
    at_least_one,
    boolean,
    by_type,
    fault,
    one_of,
    shape,
    string,
    text,
    whole,
)

ID = string(255, 1)
URL = string(3000, 1)

CONFIRM = shape(
    {"title": text(100, "plain_text"), "text": text(300), "confirm": text(30, "plain_text")},
    {"deny": text(30, "plain_text"), "style": one_of("primary", "danger")},
)
# Slack's reference gives both 150 and 75 for an option's value; the lower limit is safe everywhere.
OPTION = shape(
    {"text": text(75), "value": string(75, 1)},
    {"description": text(75, "plain_text"), "url": URL},
)
OPTION_GROUP = shape({"label": text(75, "plain_text"), "options": array(OPTION, 100)}, {})
DISPATCH = shape({}, {"trigger_actions_on": array(one_of("on_enter_pressed", "on_character_entered"))})
SLACK_FILE = at_least_one(("id", "url"), shape({}, {"id": string(), "url": string()}))
PLACEHOLDER = text(150, "plain_text")
_PICKER: dict[str, Check] = {
    "action_id": ID,
    "confirm": CONFIRM,
    "focus_on_load": boolean,
    "placeholder": PLACEHOLDER,
}
_GROUP: dict[str, Check] = {"action_id": ID, "confirm": CONFIRM, "focus_on_load": boolean}
_TYPED: dict[str, Check] = {
    "action_id": ID,
    "placeholder": PLACEHOLDER,
    "focus_on_load": boolean,
    "dispatch_action_config": DISPATCH,
}
_CHOICES: dict[str, Check] = {"options": array(OPTION, 100), "option_groups": array(OPTION_GROUP, 100)}


def _among_options(rule: Check) -> Check:
    """Initial options must be among the options; either options or option_groups is required."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        yield from rule(value, pointer)
        offered = [*value.get("options", ())] if isinstance(value.get("options"), list) else []
        for group in value.get("option_groups") or ():
            offered += group.get("options", []) if isinstance(group, dict) else []
        chosen = (
            [value["initial_option"]] if "initial_option" in value else value.get("initial_options") or []
        )
        if any(each not in offered for each in chosen):
            yield fault("initial option must be one of the options", pointer)

    return check


def _selects() -> dict[str, Check]:
    static = ("options", "option_groups")
    table: dict[str, Check] = {}
    for prefix, many in (("", False), ("multi_", True)):
        more: dict[str, Check] = {"max_selected_items": whole(1)} if many else {}
        initial = "initial_options" if many else "initial_option"
        first: Check = array(OPTION, 100) if many else OPTION
        rule = at_least_one(static, shape({}, _PICKER | _CHOICES | more | {initial: first}))
        table[f"{prefix}static_select"] = _among_options(rule)
        external = {"min_query_length": whole(0), initial: first}
        table[f"{prefix}external_select"] = shape({}, _PICKER | more | external)
        for what in ("user", "conversation", "channel"):
            begin: dict[str, Check] = {f"initial_{what}{'s' if many else ''}": array(ID) if many else ID}
            if what != "user" and not many:
                begin["response_url_enabled"] = boolean
            if what == "conversation":
                begin |= {"default_to_current_conversation": boolean, "filter": anything}
            table[f"{prefix}{what}s_select"] = shape({}, _PICKER | more | begin)
    return table


BUTTON = shape(
    {"text": text(75, "plain_text")},
    {
        "action_id": ID,
        "url": URL,
        "value": string(2000),
        "style": one_of("primary", "danger"),
        "confirm": CONFIRM,
        "accessibility_label": string(75, 1),
        "agent_prompt": anything,
        "agent_prompt_display": anything,
        "visible_to_user_ids": array(ID),
    },
)
ELEMENTS: dict[str, Check] = {
    **_selects(),
    "button": BUTTON,
    "workflow_button": anything,
    "icon_button": anything,
    "feedback_buttons": anything,
    "image": at_least_one(
        ("image_url", "slack_file"),
        shape({"alt_text": string(2000)}, {"image_url": URL, "slack_file": SLACK_FILE}),
    ),
    "overflow": shape({"options": array(OPTION, 5)}, {"action_id": ID, "confirm": CONFIRM}),
    "checkboxes": _among_options(
        shape({"options": array(OPTION, 10)}, _GROUP | {"initial_options": array(OPTION, 10)})
    ),
    "radio_buttons": _among_options(
        shape({"options": array(OPTION, 10)}, _GROUP | {"initial_option": OPTION})
    ),
    "datepicker": shape({}, _PICKER | {"initial_date": string(pattern=r"\d{4}-\d\d-\d\d")}),
    "timepicker": shape(
        {}, _PICKER | {"initial_time": string(pattern=r"[0-2]\d:[0-5]\d"), "timezone": string()}
    ),
    "datetimepicker": shape({}, _GROUP | {"initial_date_time": whole(0)}),
    "plain_text_input": shape(
        {},
        _TYPED
        | {
            "initial_value": string(3000),
            "multiline": boolean,
            "min_length": whole(0, 3000),
            "max_length": whole(1, 3000),
        },
    ),
    "number_input": shape(
        {"is_decimal_allowed": boolean},
        _TYPED | {"initial_value": string(), "min_value": string(), "max_value": string()},
    ),
    "email_text_input": shape({}, _TYPED | {"initial_value": string()}),
    "url_text_input": shape({}, _TYPED | {"initial_value": string()}),
    "rich_text_input": shape(
        {}, _TYPED | {"initial_value": anything, "min_lines": whole(1), "max_lines": whole(1)}
    ),
    "file_input": shape({}, {"action_id": ID, "filetypes": array(string()), "max_files": whole(1, 10)}),
    "plain_text": text(3000, "plain_text"),
    "mrkdwn": text(3000, "mrkdwn"),
}
_SELECTS = frozenset(kind for kind in ELEMENTS if kind.endswith("_select"))
_PRESSED = _SELECTS | {"button", "checkboxes", "radio_buttons", "overflow", "workflow_button"}
IN_ACTIONS = _PRESSED | {"datepicker", "timepicker", "datetimepicker"}
IN_SECTION = _PRESSED | {"datepicker", "timepicker", "image"}
IN_CONTEXT = frozenset({"image", "plain_text", "mrkdwn"})
IN_INPUT = (
    _SELECTS
    | {
        "checkboxes",
        "radio_buttons",
        "datepicker",
        "timepicker",
        "datetimepicker",
        "file_input",
        "number_input",
    }
    | {"plain_text_input", "rich_text_input", "email_text_input", "url_text_input"}
)

_STYLE: dict[str, Check] = {"style": anything}
RICH_TEXT_PIECES: dict[str, Check] = {
    "text": shape({"text": string(shortest=1)}, _STYLE),
    "link": shape({"url": string(shortest=1)}, _STYLE | {"text": string(), "unsafe": boolean}),
    "emoji": shape({"name": string()}, _STYLE | {"unicode": string(), "skin_tone": whole(1, 6)}),
    "user": shape({"user_id": ID}, _STYLE),
    "usergroup": shape({"usergroup_id": ID}, _STYLE),
    "channel": shape({"channel_id": ID}, _STYLE),
    "team": shape({"team_id": ID}, _STYLE),
    "broadcast": shape({"range": one_of("here", "channel", "everyone")}, _STYLE),
    "color": shape({"value": string()}, _STYLE),
    "date": shape(
        {"timestamp": whole(0), "format": string(shortest=1)},
        _STYLE | {"url": string(), "fallback": string()},
    ),
}
_PIECES = array(by_type(RICH_TEXT_PIECES), least=0)
_RICH_TEXT_SECTION = shape({"elements": _PIECES}, {})
RICH_TEXT_ELEMENTS: dict[str, Check] = {
    "rich_text_section": _RICH_TEXT_SECTION,
    "rich_text_preformatted": shape({"elements": _PIECES}, {"border": whole(0, 1), "language": string()}),
    "rich_text_quote": shape({"elements": _PIECES}, {"border": whole(0, 1)}),
    "rich_text_list": shape(
        {
            "style": one_of("bullet", "ordered"),
            "elements": array(by_type({"rich_text_section": _RICH_TEXT_SECTION})),
        },
        {"indent": whole(0, 8), "offset": whole(0), "border": whole(0, 1)},
    ),
}
_RICH_TEXT = shape({"elements": array(by_type(RICH_TEXT_ELEMENTS))}, {"block_id": ID})
_CELL = by_type(
    {
        "raw_text": shape({"text": string(shortest=1)}, {}),
        "raw_number": anything,
        "rich_text": _RICH_TEXT,
    }
)
_IMAGE = by_type(ELEMENTS, frozenset({"image"}))
_CARD = at_least_one(
    ("hero_image", "title", "actions", "body"),
    shape(
        {},
        {
            "block_id": ID,
            "hero_image": _IMAGE,
            "icon": _IMAGE,
            "title": text(150),
            "subtitle": text(150),
            "body": text(200),
            "actions": array(by_type(ELEMENTS, frozenset({"button", "overflow", "icon_button"})), 25),
        },
    ),
)

BLOCKS: dict[str, Check] = {
    "section": at_least_one(
        ("text", "fields"),
        shape(
            {},
            {
                "block_id": ID,
                "text": text(3000),
                "fields": array(text(2000), 10),
                "accessory": by_type(ELEMENTS, IN_SECTION),
                "expand": boolean,
            },
        ),
    ),
    "divider": shape({}, {"block_id": ID}),
    "header": shape({"text": text(150, "plain_text")}, {"block_id": ID, "level": whole(1, 4)}),
    "actions": shape({"elements": array(by_type(ELEMENTS, IN_ACTIONS), 25)}, {"block_id": ID}),
    "context": shape({"elements": array(by_type(ELEMENTS, IN_CONTEXT), 10)}, {"block_id": ID}),
    "context_actions": shape(
        {"elements": array(by_type(ELEMENTS, frozenset({"feedback_buttons", "icon_button"})), 5)},
        {"block_id": ID},
    ),
    "image": at_least_one(
        ("image_url", "slack_file"),
        shape(
            {"alt_text": string(2000)},
            {"block_id": ID, "image_url": URL, "slack_file": SLACK_FILE, "title": text(2000, "plain_text")},
        ),
    ),
    "input": shape(
        {"label": text(2000, "plain_text"), "element": by_type(ELEMENTS, IN_INPUT)},
        {"block_id": ID, "hint": text(2000, "plain_text"), "optional": boolean, "dispatch_action": boolean},
    ),
    "rich_text": _RICH_TEXT,
    "markdown": shape({"text": string(12_000, 1)}, {"block_id": ID}),
    "table": shape(
        {"rows": array(array(_CELL, 20), 100)},
        {"block_id": ID, "column_settings": array(anything, 20, least=0)},
    ),
    "video": anything,
    "file": anything,
    "alert": shape(
        {"text": text(3000)},
        {"block_id": ID, "level": one_of("default", "info", "warning", "error", "success")},
    ),
    "card": _CARD,
    "carousel": shape({"elements": array(by_type({"card": _CARD}), 10)}, {"block_id": ID}),
    "plan": anything,
    "task_card": anything,
}
BLOCKS["container"] = at_least_one(
    ("title", "rich_text_title"),
    shape(
        {"child_blocks": array(by_type(BLOCKS), 10)},
        {
            "block_id": ID,
            "title": text(150, "plain_text"),
            "rich_text_title": _RICH_TEXT,
            "subtitle": text(150),
            "width": one_of("narrow", "standard", "wide", "full"),
            "icon": _IMAGE,
            "is_collapsible": boolean,
            "default_collapsed": boolean,
            "has_header_divider": boolean,
        },
    ),
)

_EVERYWHERE = frozenset(
    {"section", "divider", "header", "actions", "context", "image", "input", "rich_text", "video", "card"}
)
SURFACES: dict[str, frozenset[str]] = {
    "message": _EVERYWHERE
    | {"markdown", "table", "carousel", "container", "file", "context_actions", "plan", "task_card"},
    "modal": _EVERYWHERE | {"alert"},
    "home": _EVERYWHERE | {"carousel"},
}
