"""The form that changes an action's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.domain.masked_action import MaskedAction
from agent.domain.request_view import RequestView
from signoff.errors import MalformedArguments
from signoff.values import Action
from slackbot.cards import blocks, form, inert
from slackbot.cards.modals import modal
from slackbot.cards.request import title
from slackbot.cards.values import CALLBACK_EDIT, Json

PREFIX = "signoff:edit"
MAX_ERROR = 250

_INTRO = (
    "Saving creates a new revision: facts are looked up again, policy evaluates it again, earlier votes stop "
    "counting, and its card shows what you changed. It is approved or rejected there."
)
_SOMEONE_ELSE = "If you edit it, someone else has to approve it."
_NOTHING = "None of these arguments can be edited here."


def edit_modal(view: RequestView, schema: Mapping[str, Any], carry: str) -> Json:
    """Inputs for the (masked) arguments, by the tool's JSON schema; redacted ones as text."""
    rows = form.inputs(edit_fields(view, schema), view.money_in("args"))
    editable = any(row["type"] == "input" for row in rows)
    message = _INTRO if view.rule.editor_may_approve else f"{_INTRO} {_SOMEONE_ELSE}"
    head = blocks.rich_text(
        blocks.section(blocks.text(inert.line(title(view), 600), bold=True)),
        blocks.section(blocks.text(message if editable else _NOTHING)),
    )
    named = [
        row if row["type"] == "input" else blocks.with_ids([row], f"{at}")[0] for at, row in enumerate(rows)
    ]
    return modal(
        "Edit",
        [*blocks.with_ids([head], carry), *named],
        close="Cancel" if editable else "Close",
        submit="Save changes" if editable else None,
        callback=CALLBACK_EDIT,
        carry=carry,
    )


def edit_fields(view: RequestView, schema: Mapping[str, Any]) -> list[form.Field]:
    """The inputs outside Slack; `view` shows arguments as people may see them."""
    masked = view.action.hidden if isinstance(view.action, MaskedAction) else ()
    return _fields(view.action.arguments, schema, (*view.rule.redact, *masked))


def argument_fields(original: Action, schema: Mapping[str, Any]) -> list[form.Field]:
    """The fields that `read_edit` reads, with true values."""
    return _fields(original.arguments, schema, ())


def read_edit(
    values: Mapping[str, Any], schema: Mapping[str, Any], original: Action
) -> tuple[dict[str, Any], dict[str, str]]:
    """The edited arguments, and errors by block_id, from `view.state.values`.

    `original` has the true values: those without an input, such as secrets, stay. The tool checks the result; see
    `edit_errors`.
    """
    return form.read(values, _fields(original.arguments, schema, ()), original.arguments)


def edit_errors(
    view: Mapping[str, Any],
    schema: Mapping[str, Any],
    original: Action,
    edited: Mapping[str, Any],
    problem: str,
    path: str = "$",
) -> dict[str, str]:
    """Show an error at an input: the form stays open with its content.

    At the input for `path`, else the first changed one, else the first. `view` is the submission's: Slack refuses
    errors for other blocks.
    """
    there = [block["block_id"] for block in view.get("blocks", []) if block.get("type") == "input"]
    known = [each for each in _fields(original.arguments, schema, ()) if each.block_id in there]
    for each in known:
        if _is_about(path, each.property.name):
            return {each.block_id: inert.line(problem, MAX_ERROR)}
    changed = [each.block_id for each in known if _is_changed(each.property.name, original.arguments, edited)]
    message = str(MalformedArguments(path, problem))
    return {at: inert.line(message, MAX_ERROR) for at in (changed or there)[:1]}


def _fields(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], redact: tuple[str, ...]
) -> list[form.Field]:
    hidden = {part for path in redact for part in (path, path.removeprefix("args.").split(".")[0])}
    return form.fields(schema, arguments, PREFIX, hidden.__contains__)


def _is_changed(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return (name in before, before.get(name)) != (name in after, after.get(name))


def _is_about(path: str, name: str) -> bool:
    for begin in (f"$.{name}", f"$[{name!r}]", f'$["{name}"]'):
        if path == begin or path.startswith((f"{begin}.", f"{begin}[")):
            return True
    return False
