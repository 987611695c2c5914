"""Why people are asked, without secrets, and without grants that the reader may not see."""

from __future__ import annotations

from dataclasses import replace

from agent.domain.errors import Refused
from agent.domain.explanation import UnfitGrant, WhyAsked
from agent.domain.request_view import RequestView
from agent.runtime.judging.why_asked import why_asked
from agent.runtime.services import Services
from signoff.values import Person
from slackbot.masking import clean_value, hidden_values
from slackbot.reviewing.grants import revocable_among
from slackbot.slack_api.directory import Directory


async def masked_why(
    services: Services, directory: Directory, person: Person, view: RequestView
) -> WhyAsked | None:
    """``view`` has the true values, which the failure of a condition may quote. ``person`` reads it."""
    why = await why_asked(services, view)
    if why is None:
        return None
    explained = [*([why.rule] if why.rule else []), *why.others]
    said = await clean_value([each.why for each in explained], await hidden_values(view))
    clean = [replace(each, why=words) for each, words in zip(explained, said, strict=True)]
    rule = clean.pop(0) if why.rule else None
    grants = await _visible(directory, person, why.grants) if why.grants else ()
    return replace(why, rule=rule, others=tuple(clean), grants=grants)


async def _visible(
    directory: Directory, person: Person, grants: tuple[UnfitGrant, ...]
) -> tuple[UnfitGrant, ...]:
    """Those that the person finds in the list of grants; in doubt none."""
    try:
        return tuple(await revocable_among(directory, person, grants))
    except Refused:
        return ()
