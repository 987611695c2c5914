"""Elements of a surface: found, pressed, and filled in as Slack's client does."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from signoff_demo.sandbox.refusal import Json

_ID_LETTERS = string.ascii_letters + string.digits + "+/"

# State type of each element, and the field of its initial value.
_STATE = {
    "plain_text_input": ("value", "initial_value"),
    "number_input": ("value", "initial_value"),
    "email_text_input": ("value", "initial_value"),
    "url_text_input": ("value", "initial_value"),
    "rich_text_input": ("rich_text_value", "initial_value"),
    "static_select": ("selected_option", "initial_option"),
    "external_select": ("selected_option", "initial_option"),
    "users_select": ("selected_user", "initial_user"),
    "conversations_select": ("selected_conversation", "initial_conversation"),
    "channels_select": ("selected_channel", "initial_channel"),
    "multi_static_select": ("selected_options", "initial_options"),
    "multi_external_select": ("selected_options", "initial_options"),
    "multi_users_select": ("selected_users", "initial_users"),
    "multi_conversations_select": ("selected_conversations", "initial_conversations"),
    "multi_channels_select": ("selected_channels", "initial_channels"),
    "checkboxes": ("selected_options", "initial_options"),
    "radio_buttons": ("selected_option", "initial_option"),
    "datepicker": ("selected_date", "initial_date"),
    "timepicker": ("selected_time", "initial_time"),
    "datetimepicker": ("selected_date_time", "initial_date_time"),
    "file_input": ("files", "initial_files"),
}
STATELESS = {"button", "overflow", "workflow_button", "icon_button", "feedback_buttons"}
INTERACTIVE = {*_STATE, *STATELESS}


class NotOnScreen(LookupError):
    """The person cannot press this: it is not on the message, modal or Home that they see.

    `sentence` is what the page says; the text also names what there is.
    """

    def __init__(self, text: str, sentence: str) -> None:
        super().__init__(text)
        self.sentence = sentence


class NotFilledIn(ValueError):
    """Slack's client would refuse to submit this form; `errors` by block_id."""

    def __init__(self, errors: dict[str, str]) -> None:
        super().__init__(str(errors))
        self.errors = errors


@dataclass(frozen=True)
class FoundElement:
    """An interactive element of a surface, with the block that contains it."""

    block: Json
    element: Json

    @property
    def block_id(self) -> str:
        return str(self.block["block_id"])

    @property
    def action_id(self) -> str:
        return str(self.element["action_id"])


def with_ids(blocks: list[Json]) -> list[Json]:
    """Slack generates ids that the app omitted."""
    taken = {block.get("block_id") for block in blocks}
    filled = []
    for given in blocks:
        block = dict(given)
        if not block.get("block_id"):
            while (block_id := "".join(secrets.choice(_ID_LETTERS) for _ in range(5))) in taken:
                pass
            taken.add(block_id)
            block["block_id"] = block_id
        for element in _elements_of(block):
            if not element.get("action_id"):
                element["action_id"] = "".join(secrets.choice(_ID_LETTERS) for _ in range(5))
        filled.append(block)
    return filled


def walk(blocks: list[Json]) -> Iterator[FoundElement]:
    """In reading order, nested blocks included."""
    for block in blocks:
        for element in _elements_of(block):
            yield FoundElement(block, element)
        inner = [*block.get("child_blocks", ())] if block.get("type") == "container" else []
        if block.get("type") == "carousel":
            inner = [{"block_id": block.get("block_id"), **card} for card in block.get("elements", ())]
        yield from walk(inner)


def find(
    blocks: list[Json], action_id: str | None, block_id: str | None = None, label: str | None = None
) -> FoundElement:
    """Raises NotOnScreen if none or several match."""
    fitting = [
        found
        for found in walk(blocks)
        if action_id in (None, found.action_id)
        and block_id in (None, found.block_id)
        and (label is None or found.element.get("text", {}).get("text") == label)
    ]
    if len(fitting) != 1:
        there = [(found.block_id, found.action_id) for found in walk(blocks)]
        wanted = (block_id, action_id, label)
        sentence = "There are several such buttons here." if fitting else "This button is not there any more."
        raise NotOnScreen(f"{len(fitting)} elements fit {wanted}; there are {there}", sentence)
    return fitting[0]


def initial_state(blocks: list[Json]) -> Json:
    """Return the state of blocks as Slack reports it before a person enters anything, by block and action."""
    values: Json = {}
    for found in walk(blocks):
        kind = found.element["type"]
        if kind in _STATE:
            name, initial = _STATE[kind]
            empty: Any = [] if name.endswith("s") else None
            state = {"type": kind, name: found.element.get(initial, empty)}
            values.setdefault(found.block_id, {})[found.action_id] = state
    return values


def entered_state(found: FoundElement, value: Any) -> Json:
    """Convert a plain value, or a Slack state object, which stays unchanged. Options are selected by `value`. Raises
    NotOnScreen for an option that is not offered.
    """
    kind = found.element["type"]
    if isinstance(value, dict) and value.get("type") == kind:
        return value
    name = _STATE[kind][0]
    if name == "selected_option":
        return {"type": kind, name: None if value is None else option(found.element, value)}
    if name == "selected_options":
        return {"type": kind, name: [option(found.element, each) for each in value]}
    return {"type": kind, name: value}


def option(element: Json, value: Any) -> Json:
    """Return the offered option with this value; an external one is taken as given. Raises NotOnScreen."""
    if element["type"] in ("external_select", "multi_external_select"):
        return dict(value)
    wanted = value["value"] if isinstance(value, dict) else value
    offered = [*element.get("options", ())]
    for group in element.get("option_groups", ()):
        offered += group["options"]
    for each in offered:
        if each.get("value") == wanted:
            return dict(each)
    there = [each.get("value") for each in offered]
    raise NotOnScreen(f"no option {wanted!r} among {there}", "This choice is not offered any more.")


def check_filled_in(blocks: list[Json], values: Json) -> None:
    """Raises NotFilledIn, as Slack's client checks a form before it submits."""
    errors: dict[str, str] = {}
    for found in walk(blocks):
        if found.block["type"] != "input":
            continue
        element = found.element
        state = values.get(found.block_id, {}).get(found.action_id, {})
        value = state.get(_STATE[element["type"]][0])
        if value in (None, "", []):
            if not found.block.get("optional"):
                errors[found.block_id] = "Please complete this required field."
        elif isinstance(value, str):
            if len(value) > element.get("max_length", 3000):
                errors[found.block_id] = f"Must be at most {element.get('max_length', 3000)} characters."
            elif len(value) < element.get("min_length", 0):
                errors[found.block_id] = f"Must be at least {element['min_length']} characters."
    if errors:
        raise NotFilledIn(errors)


def press_report(found: FoundElement, state: Json | None, value: Any, ts: str) -> Json:
    """The `actions` entry of the payload."""
    element = found.element
    action: Json = {
        "action_id": found.action_id,
        "block_id": found.block_id,
        "type": element["type"],
        "action_ts": ts,
    }
    for name in ("text", "value", "style", "url", "placeholder", "confirm"):
        if name in element and (name != "text" or element["type"] != "overflow"):
            action[name] = element[name]
    if element["type"] == "overflow":
        action["selected_option"] = option(element, value)
    elif state is not None:
        action |= {name: member for name, member in state.items() if name != "type"}
    return action


def _elements_of(block: Json) -> list[Json]:
    kind = block.get("type")
    if kind in ("actions", "context_actions"):
        candidates = list(block.get("elements", ()))
    elif kind == "section":
        candidates = [block.get("accessory")]
    elif kind == "input":
        candidates = [block.get("element")]
    elif kind == "card":
        candidates = list(block.get("actions") or ())
    else:
        candidates = []
    return [each for each in candidates if isinstance(each, dict) and each.get("type") in INTERACTIVE]
