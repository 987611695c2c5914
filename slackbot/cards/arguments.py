"""An action's arguments for people: without our plumbing, and a gate's command as a shell prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.domain.request import EXTERNAL
from agent.domain.request_view import RequestView
from signoff.description import command_line, without_command
from signoff.description import shown as stored_as_shown
from signoff.errors import MalformedArguments
from signoff.formats import Money
from signoff.json_paths import without
from signoff.values import COMMAND, Action
from signoff.visible_text import visible
from slackbot.cards import blocks, inert, json_text, scalars, tree
from slackbot.cards.values import Json

MAX_COMMAND = 2000
MAX_COMMAND_LINES = 20


@dataclass(frozen=True, slots=True)
class ReadableArguments:
    """The arguments that a card shows, with the money among them."""

    values: Mapping[str, Any]
    money: Money
    command: str | None = None


@dataclass(frozen=True, slots=True)
class ShownArguments:
    """`parts` of a rich text, empty if there is nothing to show."""

    parts: list[Json]
    complete: bool = True


def readable(view: RequestView, hidden: Iterable[str] = ()) -> ReadableArguments:
    """All of them but ``hidden``; of a question, what it is about."""
    values, money = without(json_text.arguments_of(view.action), hidden, "args").values, view.money_in("args")
    if view.is_question:
        return _of_question(view, values, money)
    command = command_line(values)
    told = {name: value for name, value in values.items() if command is None or name != COMMAND}
    return ReadableArguments(told, money, command)


def shown(
    view: RequestView, limit: int, most: int = 30, *, title_shown: bool = False, whole: bool = False
) -> ShownArguments:
    """``title_shown``: the whole title is above, so that its arguments are left out; ``whole``: none is hidden."""
    found = readable(view, () if whole else view.rule.hidden)
    in_title = _in_title(view) if title_shown else frozenset()
    told = {
        name: value
        for name, value in found.values.items()
        if name not in in_title or isinstance(value, Mapping | list | tuple) or scalars.looks_typed(value)
    }
    command, is_cut = _command(found.command)
    if not told:
        return ShownArguments(command, not is_cut)
    seen = tree.show_values(told, limit - blocks.size(command), most, found.money, view.called)
    return ShownArguments([label(view), *seen.parts, *command], seen.complete and not is_cut)


def hidden_note(view: RequestView) -> list[Json]:
    """How many values of facts and arguments only Details shows."""
    if not (hidden := view.rule.hidden):
        return []
    found = ((view.facts or {}, "facts"), (json_text.arguments_of(view.action), "args"))
    count = sum(without(values, hidden, root).left_out for values, root in found)
    verb = "value is" if count == 1 else "values are"
    return [blocks.section(blocks.text(f"{count:,} more {verb} in Details.", italic=True))] if count else []


def label(view: RequestView) -> Json:
    """`Arguments of process_refund`."""
    if view.is_question or view.rule.layout == "plain":
        return blocks.section(blocks.text("What it is about", bold=True))
    tool = blocks.text(inert.line(view.action.tool, 80), code=True)
    return blocks.section(blocks.text("Arguments of ", bold=True), tool)


def version_of(action: Action) -> str:
    """`, version 3`; a program's action has none."""
    return "" if action.tool_version == EXTERNAL else f", version {inert.line(action.tool_version, 40)}"


def _of_question(view: RequestView, values: Mapping[str, Any], money: Money) -> ReadableArguments:
    named, about = (
        ("action_description", "agent_context") if view.action.tool == EXTERNAL else ("question", "arguments")
    )
    given = values.get(about)
    if view.wants_answer and given is None and about == "arguments":
        return ReadableArguments({}, money)
    if str(values.get(named)) not in view.description:
        told = {name: values[name] for name in (named, about) if values.get(name) is not None}
        return ReadableArguments(told, money)
    if isinstance(given, Mapping):
        return ReadableArguments(given, money.below(about))
    return ReadableArguments({} if given is None else {about: given}, money)


def _in_title(view: RequestView) -> frozenset[str]:
    """The arguments that the title shows whole: none, unless it is what the rule makes of them now."""
    if view.is_question:
        return frozenset()
    try:
        text, whole = view.rule.described(view.action, view.facts)
    except (MalformedArguments, ValueError):
        return frozenset()
    titles = (
        without_command(each, view.action.arguments) for each in (stored_as_shown(text), view.description)
    )
    return whole if len(set(titles)) == 1 else frozenset()


def _command(command: str | None) -> tuple[list[Json], bool]:
    if command is None:
        return [], False
    whole = visible(command)
    lines = "\n".join(whole.split("\n")[:MAX_COMMAND_LINES])
    told = inert.shortened(lines, MAX_COMMAND)
    return [blocks.preformatted(told)], told != whole
