"""What a program may say of its question: who asks, and which facts it sends."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from agent.domain.api_keys import Principal, Scope
from agent.domain.facts import Facts, FactsSource, read_facts
from signoff.errors import MalformedArguments
from signoff.values import SLACK_USER, Person
from slackbot.reviewing.run_starts import Requester
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

UserId = Annotated[str, Field(pattern=SLACK_USER.pattern, description="A person's id in Slack.")]


def is_user_id(named: str) -> bool:
    """Whether a text has the form of a Slack user id; nobody is looked up."""
    return SLACK_USER.problem(named) is None


def claimed_requester(ctx: WebContext, principal: Principal, named: str | None) -> Requester:
    """Raises ProblemRaised (403) for a name that the key may not use."""
    owner = principal.owner
    if named is None or (owner is not None and owner == Person(ctx.slack.team_id, named)):
        return Requester(owner, "key-owner") if owner else Requester(None, "none")
    if not principal.may(Scope.ON_BEHALF):
        words = f"The key {principal.key} may ask for its owner only; to name somebody it needs the scope on_behalf."
        raise ProblemRaised(403, "scope-missing", "Scope missing", words)
    return Requester(Person(ctx.slack.team_id, named), "on-behalf")


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
