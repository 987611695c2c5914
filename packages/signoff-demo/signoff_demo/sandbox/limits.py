"""Slack's documented limits on messages, views and metadata."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from signoff_demo.sandbox.block_rules import BLOCKS, ID, SURFACES
from signoff_demo.sandbox.elements import walk
from signoff_demo.sandbox.mrkdwn import escaped_blocks
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.shapes import Check, array, boolean, by_type, fault, shape, string, text

BLOCK_COUNT = {"message": 50, "modal": 100, "home": 100}
MESSAGE_CHARACTERS = 13_200
"""Undocumented: more text in all blocks of a message fails with `msg_blocks_too_long`."""
MARKDOWN_CHARACTERS = 12_000
"""Limit for all markdown blocks of one message."""
VIEW_BYTES = 250_000
METADATA_CHARACTERS = 8_000

_TITLE = text(24, "plain_text")
_VIEW_COMMON: dict[str, Check] = {
    "private_metadata": string(3000),
    "callback_id": string(255),
    "external_id": string(255),
}
_VIEWS: dict[str, Check] = {
    "modal": shape(
        {"title": _TITLE, "blocks": lambda _value, _pointer: iter(())},
        _VIEW_COMMON
        | {
            "submit": _TITLE,
            "close": _TITLE,
            "clear_on_close": boolean,
            "notify_on_close": boolean,
            "submit_disabled": boolean,
        },
    ),
    "home": shape({"blocks": lambda _value, _pointer: iter(())}, _VIEW_COMMON),
}
_METADATA = shape(
    {"event_type": string(255, 1), "event_payload": lambda _value, _pointer: iter(())},
    {"entities": array(ID)},
)


def check_blocks(blocks: list[Json], surface: str) -> None:
    """Raises SandboxRefusal `invalid_blocks` or `msg_blocks_too_long`."""
    if faults := list(_block_faults(blocks, surface, "/blocks")):
        raise SandboxRefusal("invalid_blocks", *faults)
    stored = escaped_blocks(blocks)
    if surface == "message" and sum(map(_characters, stored)) > MESSAGE_CHARACTERS:
        raise SandboxRefusal("msg_blocks_too_long")
    markdown = sum(len(each["text"]) for each in stored if each["type"] == "markdown")
    if markdown > MARKDOWN_CHARACTERS:
        raise SandboxRefusal("msg_blocks_too_long")


def check_view(view: Json, kind: str) -> None:
    """Raises SandboxRefusal `invalid_arguments` or `view_too_large`."""
    if view.get("type") != kind:
        raise SandboxRefusal("invalid_arguments", fault(f"must be one of {kind}", "/view/type"))
    faults = list(_VIEWS[kind](view, "/view"))
    faults += _block_faults(view.get("blocks"), kind, "/view/blocks")
    has_input = not faults and any(block["type"] == "input" for block in view["blocks"])
    if has_input and kind == "modal" and "submit" not in view:
        faults.append(fault("missing required field: submit", "/view"))
    if faults:
        raise SandboxRefusal(
            "invalid_arguments", "failed to match all allowed schemas [json-pointer:/view]", *faults
        )
    if len(json.dumps(view, ensure_ascii=False).encode()) > VIEW_BYTES:
        raise SandboxRefusal("view_too_large")


def check_metadata(metadata: Json) -> None:
    """Raises SandboxRefusal `invalid_metadata_format` or `metadata_too_large`."""
    faults = list(_METADATA(metadata, "/metadata"))
    if not isinstance(metadata.get("event_payload"), dict):
        faults.append(fault("must provide an object", "/metadata/event_payload"))
    if faults:
        raise SandboxRefusal("invalid_metadata_format", *faults)
    if len(json.dumps(metadata)) > METADATA_CHARACTERS:
        raise SandboxRefusal("metadata_too_large")


def _block_faults(blocks: Any, surface: str, pointer: str) -> Iterator[str]:
    rule = array(
        by_type(BLOCKS, SURFACES[surface]), BLOCK_COUNT[surface], least=0 if surface == "home" else 1
    )
    faults = list(rule(blocks, pointer))
    yield from faults
    if faults:
        return
    for block_id, count in Counter(each.get("block_id") for each in blocks).items():
        if block_id is not None and count > 1:
            yield fault(f"`block_id` {block_id} already exists in this {surface}", pointer)
    pressed = [(id(found.block), found.element.get("action_id")) for found in walk(blocks)]
    for (_, action_id), count in Counter(pressed).items():
        if action_id is not None and count > 1:
            yield fault(f"`action_id` {action_id} already exists for this block", pointer)
    if sum(each["type"] == "table" for each in blocks) > 1:
        yield fault("only_one_table_allowed", pointer)
    if sum(bool(found.element.get("focus_on_load")) for found in walk(blocks)) > 1:
        yield fault("only one element may have focus_on_load", pointer)


def _characters(value: Any) -> int:
    """As stored."""
    if isinstance(value, list):
        return sum(map(_characters, value))
    if not isinstance(value, dict):
        return 0
    own = len(value["text"]) if isinstance(value.get("text"), str) else 0
    return own + sum(_characters(member) for member in value.values() if isinstance(member, list | dict))
