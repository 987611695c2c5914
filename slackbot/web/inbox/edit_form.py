"""The edit form of the inbox page, read into the values of Slack's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData

from signoff.values import Action
from slackbot.cards import argument_fields
from slackbot.cards.form import FIELD_INPUT
from slackbot.cards.schema import InputKind

PREFIX = "signoff:edit:"


def read_form(form: FormData) -> list[str]:
    """The ids of the inputs. An unticked box sends nothing, so each input has a marker."""
    return [each for each in form.getlist("there") if isinstance(each, str) and each.startswith(PREFIX)]


def states(form: FormData, schema: Mapping[str, Any], original: Action) -> dict[str, Any]:
    """The values in the format of `view.state.values` (Slack, "View submissions")."""
    there = set(read_form(form))
    found = {}
    for each in argument_fields(original, schema):
        if each.block_id in there and not each.fixed:
            given = form.get(each.block_id)
            found[each.block_id] = {FIELD_INPUT: _state(each.property.kind, given)}
    return found


def _state(kind: InputKind, given: Any) -> dict[str, Any]:
    typed = given if isinstance(given, str) else ""
    match kind:
        case InputKind.SWITCH:
            return {"selected_options": [{"value": "yes"}] if typed == "yes" else []}
        case InputKind.CHOICE:
            return {"selected_option": {"value": typed} if typed else None}
        case InputKind.DATE:
            return {"selected_date": typed or None}
        case _:
            return {"value": typed}
