"""Facts about an action, looked up by the program: a model's words are not evidence."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from signoff.canonical import canonical_bytes, plain_object
from signoff.client.effects import LookUpFacts, Operation
from signoff.client.reviews import Approval, Review
from signoff.errors import FactsFailed

log = logging.getLogger("signoff.client")

FACTS_MAX_AGE = 60.0
"""Seconds after which an unapproved action is judged again on current facts."""

FactsFunction = Callable[..., Any]
"""Takes the arguments by name; returns a mapping of JSON values, or `None`. With `AsyncApprovalClient` it may be async;
a sync function runs in a thread.
"""

FactsOrFunction = Mapping[str, Any] | FactsFunction | None
FactsByTool = Mapping[str, FactsFunction] | FactsFunction | None
"""One function per tool name, or one for all tools that takes the tool's name first."""


def facts_of(given: FactsByTool, tool: str) -> FactsFunction | None:
    """Return the look-up of one tool's facts, called with its arguments by name; None if there is none."""
    if callable(given):
        return lambda **arguments: given(tool, arguments)
    return given.get(tool) if given else None


def look_up(facts: FactsOrFunction, arguments: Mapping[str, Any], action: str | None) -> Operation[Any]:
    """Return JSON, or `None` without facts. Raises FactsFailed."""
    if facts is None:
        return None
    try:
        copied = plain_object(arguments)  # the function must not change the question
        given = (yield LookUpFacts(lambda: facts(**copied))) if callable(facts) else facts
        return None if given is None else json.loads(canonical_bytes(plain_object(given)))
    except Exception as error:
        words = f"the facts about {action or 'it'} could not be looked up: {error or type(error).__name__}"
        raise FactsFailed(words) from error


def look_up_to_ask(
    facts: FactsOrFunction, arguments: Mapping[str, Any], action: str | None
) -> Operation[Any]:
    """If the look-up fails, the question says so and people are asked."""
    try:
        found = yield from look_up(facts, arguments, action)
    except FactsFailed as failed:
        log.warning("%s; people are asked", failed)
        return {"facts_failed": True}
    return {} if found is None else {"facts": found}


def look_up_now(facts: FactsOrFunction, decision: Approval | Review | str) -> Operation[Any]:
    """Raises FactsFailed, and TypeError for a function if the arguments are unknown."""
    if not callable(facts):
        return (yield from look_up(facts, {}, None))
    if not isinstance(decision, Approval):
        raise TypeError(
            "a facts function needs the arguments: claim the Approval, or give the facts themselves"
        )
    return (yield from look_up(facts, decision.arguments, decision.action))
