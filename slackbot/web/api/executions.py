"""`/pending/{request_id}/claim` and `/result`: programs execute approved actions once and report the result."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from agent.domain.changes import differences
from agent.domain.request import ExecutionStatus
from agent.runtime import external_calls
from agent.runtime.judging import program_claims
from agent.runtime.judging.program_claims import AskedAgain, FactsAway
from agent.runtime.judging.programs import Denied, SlackAway
from agent.usecases.calls import Outcome
from agent.usecases.calls.program_claims import (
    FACTS_CHANGED,
    LEASE_SECONDS,
    LONGEST_LEASE,
    ClaimRefused,
    ReportRefused,
)
from signoff.canonical import canonical_bytes
from signoff.json_paths import format_path
from slackbot.masking import clean_text, clean_view
from slackbot.web.api import request_lookup
from slackbot.web.api.request_lookup import RequestId, not_found
from slackbot.web.api.requesters import check_may_send_facts, program_facts
from slackbot.web.api.shapes import (
    ActionOut,
    Length,
    RequestModel,
    ResponseModel,
    ReviewOut,
    length_schema,
    review,
)
from slackbot.web.http.api_keys import Asker
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.idempotency import IDEMPOTENT, ClaimTokens
from slackbot.web.http.problems import ProblemRaised, documented, retry_later

router = APIRouter(route_class=StrictRoute, tags=["Executors"])

MAX_DIFFERENCES = 50
_PROBLEMS = documented(400, 401, 403, 404, 409, 413, 422, 429, 503)


class CallClaimIn(RequestModel):
    """The program's claim. With `digest` the claim fails if something else was approved."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [{}]})

    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    lease: Annotated[Length, Field(ge=1, le=LONGEST_LEASE), length_schema(1, LONGEST_LEASE)] = Field(
        default=LEASE_SECONDS,
        description="How long the action may take. Without a result by then, people are asked what happened.",
    )


class ClaimIn(CallClaimIn):
    """The program's claim. With `digest` the claim fails if something else was approved."""

    facts: dict[str, Any] | None = Field(
        default=None,
        description="The current facts, if the question had facts; needs the scope facts.",
    )


NOTHING_KNOWN = ClaimIn()


class ClaimOut(ResponseModel):
    """The right to act once, with the decided arguments in full.

    Send `token` with the result. `idempotency_key` is the same for every attempt: pass it on to APIs that accept one.
    """

    id: UUID
    request_id: str
    execution_id: UUID
    attempt: int
    action: ActionOut
    digest: str
    revision: int
    edited: bool
    token: str
    idempotency_key: str
    lease_seconds: float


class ReportedOutcome(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ResultIn(RequestModel):
    """The outcome. `seconds` is the duration, if the program measured it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"token": "from the claim", "status": "succeeded", "result": {"deleted": 5}, "seconds": 1.2}
            ]
        },
    )

    token: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    status: ReportedOutcome
    result: Any = None
    error: Annotated[str, StringConstraints(min_length=1, max_length=20_000)] | None = None
    seconds: float | None = Field(default=None, ge=0, le=1e7)

    @model_validator(mode="after")
    def _fits(self) -> ResultIn:
        if (self.status is ReportedOutcome.FAILED) != (self.error is not None):
            raise ValueError("`error` says why an attempt failed, and is only for failed attempts")
        if self.status is ReportedOutcome.FAILED and self.result is not None:
            raise ValueError("an attempt that failed has an `error`, no `result`")
        return self

    @property
    def outcome(self) -> Outcome:
        """Raises MalformedArguments."""
        if self.error is not None:
            return Outcome(ExecutionStatus.FAILED, self.error, self.seconds or 0.0)
        if self.result is None:
            return Outcome(ExecutionStatus.SUCCEEDED, "", self.seconds or 0.0)
        text = self.result if isinstance(self.result, str) else canonical_bytes(self.result).decode()
        return Outcome(ExecutionStatus.SUCCEEDED, text, self.seconds or 0.0)


@router.post("/pending/{request_id}/claim", responses=_PROBLEMS)
async def claim_request(
    request: Request,
    request_id: RequestId,
    principal: Asker,
    token_of: ClaimTokens,
    body: ClaimIn = NOTHING_KNOWN,
) -> ClaimOut:
    """Claim an approved action to execute it now: once, only by the key that asked, and before the approval lapses.

    If facts have changed since the approval, or policy has become stricter, the response is 409 `facts-changed`: the
    approval is void, people are asked again, `id` is the request to wait for, and `changes` lists different facts.
    """
    ctx = web_context(request)
    view = await request_lookup.find_visible_request(ctx, principal, request_id)
    digest = bytes.fromhex(body.digest) if body.digest else None
    if body.facts is not None:
        check_may_send_facts(principal)
    facts = None if body.facts is None else program_facts(body.facts)
    try:
        claimed = await program_claims.claim(
            ctx.services, view, principal, token_of, digest=digest, facts=facts, lease_seconds=body.lease
        )
    except ClaimRefused as refused:
        status = 403 if refused.kind == "denied" else 409
        words = await clean_text(f"{refused}.")
        raise ProblemRaised(status, refused.kind, "Cannot be claimed", words) from None
    except Denied as denied:
        words = f"Policy denies this now: {await clean_text(str(denied))}."
        raise ProblemRaised(403, "denied", "Denied by policy", words) from None
    except FactsAway as away:
        raise retry_later("facts-away", "Facts cannot be looked up", str(away), 5) from None
    except SlackAway as away:
        raise retry_later("slack-away", "Slack cannot be reached", str(away), 5) from None
    if isinstance(claimed, AskedAgain):
        raise await _asked_again(ctx, claimed.request_id)
    action = claimed.action
    about = {"id": view.id, "request_id": view.client_id, "digest": action.digest.hex()}
    return ClaimOut.copy_of(claimed, action=ActionOut.of(action), **about)


@router.post("/pending/{request_id}/result", dependencies=[IDEMPOTENT], responses=_PROBLEMS)
async def report_result(
    request: Request, request_id: RequestId, principal: Asker, body: ResultIn
) -> ReviewOut:
    """Report how a claimed attempt ended. Repeating a report has no effect."""
    ctx = web_context(request)
    view = await request_lookup.find_visible_request(ctx, principal, request_id)
    try:
        await external_calls.report(
            ctx.services, view.call_id, principal, body.token, body.outcome, of="request"
        )
    except ReportRefused as refused:
        status = 403 if refused.kind == "wrong-token" else 409
        raise ProblemRaised(status, refused.kind, "Result not accepted", f"{refused}.") from None
    return await review(ctx, await ctx.snapshots.get(view.id) or view)


async def _asked_again(ctx: WebContext, request_id: UUID) -> ProblemRaised:
    view = await ctx.snapshots.get(request_id)
    if view is None:
        raise not_found()
    clean = await clean_view(view)
    made = differences(dict(clean.previous_facts or {}), dict(clean.facts or {}))
    changes = [
        {"path": format_path(steps), "before": before, "after": after}
        for steps, before, after in made[:MAX_DIFFERENCES]
    ]
    cause = (
        "Its facts have changed" if changes else "Its facts or the policy have changed"
    )  # masked ones look alike
    words = f"{cause} since people approved it. That approval is void, and people are asked again."
    return ProblemRaised(
        409,
        FACTS_CHANGED,
        "Asked again",
        words,
        id=str(view.id),
        request_id=view.client_id,
        changes=changes,
    )
