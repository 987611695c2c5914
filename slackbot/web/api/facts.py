"""Facts that programs send."""

from __future__ import annotations

from typing import Any

from agent.domain.api_keys import Principal, Scope
from agent.domain.facts import Facts, FactsSource, read_facts
from signoff.errors import MalformedArguments
from slackbot.web.http.problems import ProblemRaised


def check_may_send_facts(principal: Principal) -> None:
    """Raise ProblemRaised (403) for a key without the scope."""
    if not principal.may(Scope.FACTS):
        words = f"The key {principal.key} may not supply facts; that needs the scope facts."
        raise ProblemRaised(403, "scope-missing", "Scope missing", words)


def program_facts(values: dict[str, Any] | None) -> Facts:
    """Raises MalformedArguments, with the path below `$.facts`."""
    if values is None:
        return Facts()
    try:
        return read_facts(values, FactsSource.PROGRAM)
    except MalformedArguments as fault:
        raise MalformedArguments(f"$.facts{fault.path.removeprefix('$')}", fault.problem) from None
