"""Facts about an action, looked up by the program's own code: never the model's words, which are no evidence."""

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
"""Seconds after which what nobody had to be asked about is judged again, on the facts of then."""

FactsFunction = Callable[..., Any]
"""Called with the arguments by their names; returns a mapping of JSON values, or `None` where there are none. For an
`AsyncApprovalClient` it may be async; any other is called in a thread there."""

FactsOrFunction = Mapping[str, Any] | FactsFunction | None
FactsByTool = Mapping[str, FactsFunction] | FactsFunction | None
"""For integrations: the function of each tool by its name, or one for all tools, called with the tool's name first."""


def facts_of(given: FactsByTool, tool: str) -> FactsFunction | None:
    """The function that looks up the facts about calls of this tool."""
    if callable(given):
        return lambda **arguments: given(tool, arguments)
    return given.get(tool) if given else None


def look_up(facts: FactsOrFunction, arguments: Mapping[str, Any], action: str | None) -> Operation[Any]:
    """What is known about these arguments, as JSON; `None`: nothing. Raises FactsFailed."""
    if facts is None:
        return None
    try:
        copied = plain_object(arguments)  # what people are asked about stays as it is
        given = (yield LookUpFacts(lambda: facts(**copied))) if callable(facts) else facts
        return None if given is None else json.loads(canonical_bytes(plain_object(given)))
    except Exception as error:
        words = f"the facts about {action or 'it'} could not be looked up: {error or type(error).__name__}"
        raise FactsFailed(words) from error


def look_up_to_ask(
    facts: FactsOrFunction, arguments: Mapping[str, Any], action: str | None
) -> Operation[Any]:
    """What a question says of facts. Where they cannot be looked up it says so, and then people are asked."""
    try:
        found = yield from look_up(facts, arguments, action)
    except FactsFailed as failed:
        log.warning("%s; people are asked", failed)
        return {"facts_failed": True}
    return {} if found is None else {"facts": found}


def look_up_now(facts: FactsOrFunction, decision: Approval | Review | str) -> Operation[Any]:
    """The facts for a claim. Raises FactsFailed, and TypeError for a function where the arguments are not known."""
    if not callable(facts):
        return (yield from look_up(facts, {}, None))
    if not isinstance(decision, Approval):
        raise TypeError(
            "a function of facts needs the arguments: claim the Approval, or give the facts themselves"
        )
    return (yield from look_up(facts, decision.arguments, decision.action))
