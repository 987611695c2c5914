"""Why people are asked, without secrets."""

from __future__ import annotations

from dataclasses import replace

from agent.domain.explanation import WhyAsked
from agent.domain.request_view import RequestView
from agent.runtime.judging.why_asked import why_asked
from agent.runtime.services import Services
from slackbot.masking import clean_value, hidden_values


async def masked_why(services: Services, view: RequestView) -> WhyAsked | None:
    """``view`` has the true values, which the failure of a condition may quote."""
    why = await why_asked(services, view)
    if why is None:
        return None
    explained = [*([why.rule] if why.rule else []), *why.others]
    said = await clean_value([each.why for each in explained], await hidden_values(view))
    clean = [replace(each, why=words) for each, words in zip(explained, said, strict=True)]
    rule = clean.pop(0) if why.rule else None
    return replace(why, rule=rule, others=tuple(clean))
