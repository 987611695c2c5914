"""Why people are asked about a call: what `signoff check explain` says of an example, and grants that do not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator

from agent.domain.explanation import UnfitGrant, WhyAsked, explain, explain_rule
from agent.domain.facts import Facts
from agent.domain.grants import GRANT, CallToCover
from agent.domain.judgement import Inputs, ToolTraits
from agent.domain.request import API, RequestStatus
from agent.domain.request_view import RequestView
from agent.runtime.services import Services
from agent.store import grants as stored_grants
from agent.usecases import grants

FITS = "fits; it was given later, or whoever gave it may not approve this any more"


async def why_asked(services: Services, view: RequestView) -> WhyAsked | None:
    """``view`` has the true values. None for a grant: no policy asks for it."""
    if view.source == GRANT:
        return None
    given = Inputs(
        ToolTraits(view.action.tool, view.action.tool_version),
        view.action,
        view.facts,
        view.agent,
        view.requester.user_id if view.requester else None,
        facts_failed=view.facts is None and view.facts_source is not None,
    )
    written = explain_rule(view.rule, given)
    if view.status is not RequestStatus.WAITING:
        return WhyAsked(written)
    policy = services.policies.last_loaded
    others = (each for each in explain(policy, given) if each.checkpoint_id != view.checkpoint_id)
    return WhyAsked(written, tuple(others), tuple([each async for each in _grants(services, view)]))


async def _grants(services: Services, view: RequestView) -> AsyncIterator[UnfitGrant]:
    """Live ones of this agent, tool and checkpoint, each with why it does not cover this."""
    agent = services.registry.find(view.agent)
    tool = agent.tool(view.action.tool) if agent else None
    if not view.allow_grants or (tool is None and view.source != API):
        return
    call = CallToCover(
        action=view.action,
        facts=Facts(view.facts, source=view.facts_source),
        rule=view.rule,
        requester=view.requester,
        agent=view.agent,
        agent_version=view.agent_version,
        above=view.above,
        signature=tool.signature.digest if tool and view.source != API else None,
        principal=view.principal,
    )
    live = await services.db.read(stored_grants.live, view.agent, view.action.tool, view.checkpoint_id)
    for each in await services.db.read(stored_grants.read, [found.id for found in live]) if live else []:
        if (allowed := grants.granted(each)) is not None:
            exhausted = allowed.exhausted(each.at, each.uses, each.used_sum, allowed.amount(call))
            because = allowed.objection(call) or exhausted or FITS
            place = each.destination
            yield UnfitGrant(each.id, because, place.team_id, place.channel_id, each.approvers)
