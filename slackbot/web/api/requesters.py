"""The requester of a program's question: its key's owner, or a person that it may name."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agent.domain.api_keys import Principal, Scope
from signoff.values import SLACK_USER, Person
from slackbot.reviewing.run_starts import Requester
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

UserId = Annotated[str, Field(pattern=SLACK_USER.pattern, description="A person's id in Slack.")]


def is_user_id(named: str) -> bool:
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
