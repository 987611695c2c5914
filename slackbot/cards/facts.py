"""The heading of the facts: where they come from, and when."""

from __future__ import annotations

from agent.domain.facts import FactsSource
from agent.domain.request_view import RequestView
from signoff import formats
from signoff.json_paths import without
from slackbot.cards import blocks, inert, tree
from slackbot.cards.values import Json


def heading(view: RequestView) -> Json:
    """`Facts, supplied by the program billing`."""
    if view.facts_source is not FactsSource.SIGNOFF or view.facts_at is None:
        return blocks.section(blocks.text(title(view), bold=True))
    return blocks.section(blocks.text(f"{_title(view)} at ", bold=True), blocks.moment(view.facts_at))


def shown(view: RequestView, limit: int, most: int) -> list[Json]:
    """The facts with their heading, without those that only Details shows; nothing without facts."""
    if not view.facts:
        return []
    rest = without(view.facts, view.rule.hidden, "facts")
    seen = tree.show_values(rest.values, limit, most, view.money_in("facts"), view.called)
    return [heading(view), *seen.parts]


def title(view: RequestView) -> str:
    """The heading as plain text, with the time in UTC."""
    if view.facts_source is FactsSource.SIGNOFF and view.facts_at is not None:
        return f"{_title(view)} at {formats.moment(view.facts_at)}"
    return _title(view)


def absent(view: RequestView) -> str:
    """Say why a request shows no facts, and that this is the agent's own claim."""
    own = "this is the agent's own claim."
    if view.facts_source is None:
        return f"No facts were looked up: {own}"
    who = f"The program {_program(view)}" if view.facts_source is FactsSource.PROGRAM else "Signoff"
    found = "could not look up the facts" if view.facts is None else "found no facts"
    return f"{who} {found}: {own}"


def _title(view: RequestView) -> str:
    match view.facts_source:
        case FactsSource.PROGRAM:
            return f"Facts, supplied by the program {_program(view)}"
        case FactsSource.SIGNOFF:
            return "Facts, looked up by Signoff"
        case None:
            return "Facts, looked up by the tool"


def _program(view: RequestView) -> str:
    return inert.line(view.principal.removeprefix("key:"), 70)
