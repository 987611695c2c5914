"""`/executions`: agents' calls whose tool another program executes (`@tool(external=True)`)."""

from __future__ import annotations

import time
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from agent.runtime import external_calls
from agent.usecases.calls.program_claims import ClaimRefused, ReportRefused
from slackbot.masking import clean_descriptions
from slackbot.web.api.executions import CallClaimIn, ResultIn
from slackbot.web.api.shapes import ActionOut, Moment, ResponseModel
from slackbot.web.http.api_keys import Executor
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import web_context
from slackbot.web.http.idempotency import IDEMPOTENT, ClaimTokens
from slackbot.web.http.problems import ProblemRaised, documented

router = APIRouter(prefix="/executions", route_class=StrictRoute, tags=["Executors"])

_PROBLEMS = documented(400, 401, 403, 404, 409, 413, 422, 429, 503)
PAUSE = 1.0
"""Seconds between checks while nothing is recorded."""

LONGEST = 60.0


class HandedOut(ResponseModel):
    """A call that may be claimed until `claim_until`. The claim returns its arguments.

    `description` is the text that people approved; without `request_id`, policy allows the call without approval.
    """

    call_id: UUID
    run_id: UUID
    agent: str
    tool: str
    request_id: UUID | None
    description: str | None
    created_at: Moment
    claim_until: Moment


class CallClaimed(ResponseModel):
    """The right to execute the call once, with the decided arguments in full.

    Send `token` with the result. `idempotency_key` is the same for every attempt: pass it on to APIs that accept one.
    """

    call_id: UUID
    execution_id: UUID
    request_id: UUID | None
    attempt: int
    action: ActionOut
    digest: str
    token: str
    idempotency_key: str
    lease_seconds: float


class Reported(ResponseModel):
    """The outcome is stored, and the agent's run continues with it."""

    ok: bool = True
    call_id: UUID


NOTHING_KNOWN = CallClaimIn()


@router.get(
    "",
    operation_id="list_executions",
    responses=documented(401, 403, 422, 429, 503),
)
async def list_executions(
    request: Request,
    caller: Executor,
    response: Response,
    wait: Annotated[float, Query(ge=0, le=LONGEST, description="Seconds to wait until there is one.")] = 0.0,
) -> list[HandedOut]:
    """Calls that this key may claim now, oldest first: up to 100."""
    ctx = web_context(request)
    found = await external_calls.handed_out(ctx.services, caller)
    if not found and wait:
        with ctx.places.place(request, caller.name) as place:
            deadline, seen = time.monotonic() + (wait if place.granted else 0.0), None
            while not found and (left := deadline - time.monotonic()) > 0 and not ctx.watch.closing:
                seen = await ctx.watch.anything(seen, min(left, PAUSE))
                found = await external_calls.handed_out(ctx.services, caller)
        if not found:
            place.cut_short(response, stopping=ctx.watch.closing)
    described = await clean_descriptions([each.description or "" for each in found])
    return [
        HandedOut.copy_of(each, call_id=each.id, description=words or None, claim_until=each.lapse_at)
        for each, words in zip(found, described, strict=True)
    ]


@router.post("/{call_id}/claim", operation_id="claim_execution", responses=_PROBLEMS)
async def claim_execution(
    request: Request,
    call_id: UUID,
    caller: Executor,
    token_of: ClaimTokens,
    body: CallClaimIn = NOTHING_KNOWN,
) -> CallClaimed:
    """Claim a call to execute it now, once. It is first judged again by current policy and facts.

    If something has changed since the approval, the response is 409: people are asked again, and the call is offered
    again once they approve.
    """
    ctx = web_context(request)
    digest = bytes.fromhex(body.digest) if body.digest else None
    try:
        claimed = await external_calls.claim(
            ctx.services, call_id, caller, token_of, digest=digest, lease_seconds=body.lease
        )
    except ClaimRefused as refused:
        raise ProblemRaised(409, refused.kind, "Cannot be claimed", f"{refused}.") from None
    action = claimed.action
    given = {"call_id": call_id, "action": ActionOut.of(action), "digest": action.digest.hex()}
    return CallClaimed.copy_of(claimed, **given)


@router.post(
    "/{call_id}/result", operation_id="report_execution", dependencies=[IDEMPOTENT], responses=_PROBLEMS
)
async def report_execution(request: Request, call_id: UUID, caller: Executor, body: ResultIn) -> Reported:
    """Report how a claimed call ended; the agent receives the result. Repeating a report has no effect."""
    ctx = web_context(request)
    try:
        await external_calls.report(ctx.services, call_id, caller, body.token, body.outcome, body.result)
    except ReportRefused as refused:
        status = 403 if refused.kind == "wrong-token" else 409
        raise ProblemRaised(status, refused.kind, "Result not accepted", f"{refused}.") from None
    return Reported(call_id=call_id)
