"""`POST /approve/{request_id}`: the vote of a key's owner."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from agent.domain.answers import UnfitAnswer
from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, Verdict
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from slackbot.web.api import request_lookup
from slackbot.web.api.key_votes import cast_key_vote
from slackbot.web.api.request_lookup import RequestId
from slackbot.web.api.shapes import PersonOut, RequestModel, ReviewOut, review, rfc3339
from slackbot.web.http.api_keys import Decider
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.idempotency import IDEMPOTENT
from slackbot.web.http.problems import ProblemRaised, documented

router = APIRouter(route_class=StrictRoute, tags=["Decisions"])


class VerdictIn(StrEnum):
    """A decision; `answered` is for a question that wants more than yes or no."""

    APPROVED = "approved"
    REJECTED = "rejected"
    ANSWERED = "answered"


_VERDICTS = {VerdictIn(VERDICTS[each].outcome.status): each for each in Verdict}


class DecideIn(RequestModel):
    """The decision of the key's owner.

    `revision` is the revision that the person saw: 409 if a reviewer has edited the request since. It is required to
    approve an edited request, not to reject it.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"decision": "approved"}, {"decision": "rejected", "reason": "Too many"}]
        },
    )

    decision: VerdictIn
    reason: Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True)] | None = None
    revision: int | None = Field(default=None, ge=1, le=2**31 - 1)
    answer: Any = Field(
        default=None, description="What is answered, as the question's `answer_schema` wants it."
    )

    @model_validator(mode="after")
    def _answers(self) -> DecideIn:
        if self.answer is not None and self.decision is not VerdictIn.ANSWERED:
            raise ValueError("an `answer` belongs to the decision `answered`")
        return self


@router.post(
    "/approve/{request_id}",
    dependencies=[IDEMPOTENT],
    operation_id="decide_request",
    responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
)
async def decide(request: Request, request_id: RequestId, principal: Decider, body: DecideIn) -> ReviewOut:
    """Approve, reject or answer. The request stays `waiting` while more approvals or equal answers are needed."""
    ctx = web_context(request)
    known = await request_lookup.find_vote_context(ctx, principal, request_id)
    if principal.owner is None:
        raise request_lookup.not_found()
    verdict = _VERDICTS[body.decision]
    try:
        await cast_key_vote(
            ctx,
            principal,
            principal.owner,
            known.request_id,
            verdict,
            body.reason,
            named=body.revision,
            present=known.revision,
            answer=body.answer,
        )
    except UnfitAnswer as unfit:
        raise ProblemRaised(
            422, "unfit-answer", "Answer does not fit", str(unfit), problems=unfit.problems
        ) from None
    except Refused as refused:
        raise await _with_decision(ctx, known.request_id, refused) from None
    return await review(ctx, await _now(ctx, known.request_id))


async def _with_decision(ctx: WebContext, request_id: UUID, refused: Refused) -> Exception:
    if refused.code not in (Refusal.ALREADY_DECIDED, Refusal.EXPIRED, Refusal.WITHDRAWN):
        return refused
    now = await _now(ctx, request_id)
    decision = now.decision
    by = PersonOut.of(decision.person) if decision else None
    return ProblemRaised(
        409,
        refused.code.value.replace("_", "-"),
        "Already decided",
        refused.sentence,
        outcome=(now.status if now.status is not RequestStatus.WAITING else RequestStatus.EXPIRED).value,
        decided_by=by.model_dump() if by else None,
        decided_at=rfc3339(decision.at) if decision else None,
    )


async def _now(ctx: WebContext, request_id: UUID) -> RequestView:
    view = await ctx.snapshots.get(request_id)
    if view is None:
        raise request_lookup.not_found()
    return view
