"""On whose behalf a program asks: its key's owner, or whom it may name; and whether that person may ask at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import DOUBTFUL, Refusal
from signoff.values import Person
from slackbot.reviewing.start_refusals import start_refusal
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised, retry_later

UserId = Annotated[str, Field(pattern=r"^[UW][A-Z0-9]{2,20}$", description="A person's id in Slack.")]
_USER_ID = re.compile(r"[UW][A-Z0-9]{2,20}")


@dataclass(frozen=True, slots=True)
class Requester:
    """Somebody, or nobody in Slack, and how we come to believe it."""

    person: Person | None
    asserted: Literal["key-owner", "on-behalf", "none"]


async def requester_of(ctx: WebContext, principal: Principal, named: str | None) -> Requester:
    """Whose wish this is. Raises ProblemRaised: a person is named who may not be, or who may not start agents."""
    found = claimed_requester(ctx, principal, named)
    await check_standing(ctx, found)
    return found


async def check_standing(ctx: WebContext, requester: Requester) -> None:
    """Whether this person may ask, by what Slack says of them now. Raises ProblemRaised (403; 503: nobody can say)."""
    if requester.person is not None:
        standing = await ctx.slack.directory.identify(requester.person)
        if standing.refusal is not None:
            raise _turned_away(standing.refusal)


def looks_like_somebody(named: str) -> bool:
    """Whether this could be a person's id in Slack."""
    return _USER_ID.fullmatch(named) is not None


def claimed_requester(ctx: WebContext, principal: Principal, named: str | None) -> Requester:
    """Whose wish the key says that it is. Raises ProblemRaised (403) for a name that it may not say."""
    owner = principal.owner
    if named is None or (owner is not None and owner == Person(ctx.slack.team_id, named)):
        return Requester(owner, "key-owner") if owner else Requester(None, "none")
    if not principal.may(Scope.ON_BEHALF):
        words = f"The key {principal.key} may ask for its owner only; to name somebody it needs the scope on_behalf."
        raise ProblemRaised(403, "scope-missing", "Scope missing", words)
    return Requester(Person(ctx.slack.team_id, named), "on-behalf")


def _turned_away(refusal: Refusal) -> ProblemRaised:
    if refusal in DOUBTFUL:
        return retry_later(refusal.value.replace("_", "-"), "Nobody can say now", start_refusal(refusal), 5)
    return ProblemRaised(403, refusal.value.replace("_", "-"), "Refused", start_refusal(refusal))
