"""Actions that policy, or a reviewer's grant, allows a program without asking."""

from __future__ import annotations

from typing import Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from agent.domain.api_keys import Principal
from agent.domain.audit import AuditKind
from agent.domain.facts import Facts, FactsSource
from agent.domain.grants import CallToCover
from agent.domain.judgement import Judgement, ToolTraits
from agent.domain.limits import LimitState
from agent.domain.request import EXTERNAL
from agent.runtime.granted_calls import covers_of
from agent.usecases import grants, limits
from agent.usecases.executions import external
from agent.usecases.grants import ProgramCall
from signoff.values import Action
from slackbot.masking import clean_value
from slackbot.web.api.shapes import ActionOut, ResponseModel
from slackbot.web.http.context import WebContext
from slackbot.web.http.problems import ProblemRaised

GRANTED = "reviewers have allowed similar calls in advance"


class NotRequiredOut(ResponseModel):
    """No approval is needed: the checkpoints allow this action. The evaluation is recorded."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "request_id": "read-7",
                    "status": "not_required",
                    "because": "no checkpoint names this tool; it is unmatched, and unmatched tools are allowed",
                    "action": {"tool": "read_record", "tool_version": "external", "arguments": {"id": 7}},
                    "digest": "f" * 64,
                }
            ]
        },
    )

    request_id: str
    status: Literal["not_required"] = "not_required"
    because: str
    action: ActionOut
    digest: str
    facts_source: FactsSource | None = Field(
        default=None, description="The source of the facts that let it run; the audit log has their digest."
    )
    grant: UUID | None = Field(
        default=None, description="The grant that covers it: reviewers allowed such calls in advance."
    )


async def within_limits(
    ctx: WebContext,
    principal: Principal,
    asked: ProgramCall,
    tool: ToolTraits,
    action: Action,
    facts: Facts,
    judged: Judgement,
) -> tuple[Judgement, tuple[LimitState, ...]]:
    """If the action may run, its use is counted and recorded on return."""
    if not asked.uses or judged.verdict == "deny":
        return judged, ()
    if judged.verdict == "ask":
        return judged, await limits.states(ctx.db, asked.limit_key, asked.uses)
    detail = _detail(asked, action, facts)
    states = await limits.allow_use(
        ctx.db, principal, asked.limit_key, asked.uses, detail, judged, agent=asked.agent
    )
    return ctx.services.policy.within_limits(judged, states, tool, action, facts.values), states


async def without_review(
    ctx: WebContext, principal: Principal, asked: ProgramCall, action: Action, facts: Facts, judged: Judgement
) -> NotRequiredOut:
    """Record the result with its facts, in the key's audit chain."""
    denied = judged.verdict != "run"
    if denied or not asked.uses:  # otherwise recorded with its uses
        kind = AuditKind.REVIEW_DENIED if denied else AuditKind.REVIEW_NOT_REQUIRED
        detail = _detail(asked, action, facts)
        begins = None if denied else asked.agent
        await external.record_judgement(ctx.db, principal, kind, detail, judged, agent=begins)
    because = await clean_value(judged.because)
    if denied:
        raise ProblemRaised(403, "denied", "Denied by policy", f"Policy denies this action: {because}.")
    return await not_required(asked.client_id, action, facts, because=because)


def _detail(asked: ProgramCall, action: Action, facts: Facts) -> dict[str, object]:
    digest = action.digest.hex()
    return {"request": asked.client_id, "tool": action.tool, "digest": digest, **facts.on_record}


async def use_grant(ctx: WebContext, call: CallToCover, asked: ProgramCall, judged: Judgement) -> UUID | None:
    """The grant that this question uses, now or earlier; ``None``: ask people."""
    if ctx.services.policy.grants is None or not call.rule.allow_grants or judged.rejected is not None:
        return None
    if (used := await grants.find_use(ctx.db, asked)) is not None:
        return used
    for cover in await covers_of(ctx.services, call):
        if await grants.use_by_program(ctx.db, asked, cover, policy_epoch=judged.epoch):
            return cover.grant_id
    return None


async def not_required(
    request_id: str, action: Action, facts: Facts, *, because: str, grant: UUID | None = None
) -> NotRequiredOut:
    arguments = await clean_value(dict(action.arguments))
    return NotRequiredOut(
        request_id=request_id,
        because=because,
        action=ActionOut(tool=action.tool, tool_version=EXTERNAL, arguments=arguments),
        digest=action.digest.hex(),
        facts_source=facts.source,
        grant=grant,
    )
