"""`/approve`: a person's word, carried by a key of their own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field, StringConstraints

from agent.domain.errors import Refusal, Refused
from agent.domain.request import RequestStatus, RequestView, Verdict
from slackbot import deciding
from slackbot.web import finding
from slackbot.web.bodies import StrictRoute
from slackbot.web.callers import Decider
from slackbot.web.finding import RequestId
from slackbot.web.idempotency import IDEMPOTENT
from slackbot.web.problems import ProblemRaised, documented
from slackbot.web.shapes import PersonOut, ReviewOut, Strict, review, rfc3339
from slackbot.web.site import Site, site_of
from slackbot.web.verdicts import looked_at

router = APIRouter(route_class=StrictRoute, tags=["Decisions"])

PATH = "api"
"""By which door the vote came, for the record."""


class Word(StrEnum):
    """What somebody decides."""

    APPROVED = "approved"
    REJECTED = "rejected"


_VERDICTS = {Word.APPROVED: Verdict.APPROVE, Word.REJECTED: Verdict.REJECT}


class DecideIn(Strict):
    """The word of the key's owner.

    `revision` is the one that was looked at: if a reviewer has changed the request since, that is 409. To approve a
    request that was edited it has to be named; to reject it has not.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"decision": "approved"}, {"decision": "rejected", "reason": "Too many"}]
        },
    )

    decision: Word
    reason: Annotated[str, StringConstraints(max_length=2000, strip_whitespace=True)] | None = None
    revision: int | None = Field(default=None, ge=1, le=2**31 - 1)


@router.post(
    "/approve/{request_id}",
    dependencies=[IDEMPOTENT],
    responses=documented(400, 401, 403, 404, 409, 413, 422, 429, 503),
)
async def decide(request: Request, request_id: RequestId, principal: Decider, body: DecideIn) -> ReviewOut:
    """Approve or reject. While more approvals are needed, the request goes on `waiting`."""
    site = site_of(request)
    paper = await finding.paper_named(site, principal, request_id)
    if principal.owner is None:
        raise finding.missing()
    verdict = _VERDICTS[body.decision]
    try:
        await deciding.cast(
            site.db,
            site.slack.directory,
            principal.owner,
            paper.request_id,
            looked_at(body.revision, verdict, paper.revision),
            verdict,
            path=PATH,
            reason=body.reason or None,
            paper=paper,
            principal=principal.name,
        )
    except Refused as refused:
        raise await _told(site, paper.request_id, refused) from None
    return await review(site, await _now(site, paper.request_id))


async def _told(site: Site, request_id: UUID, refused: Refused) -> Exception:
    """Of a request that is decided: by whom and when, as members of the problem."""
    if refused.code not in (Refusal.ALREADY_DECIDED, Refusal.EXPIRED, Refusal.WITHDRAWN):
        return refused
    now = await _now(site, request_id)
    decision = now.decision
    by = PersonOut.of(decision.person) if decision else None
    return ProblemRaised(
        409,
        refused.code.value.replace("_", "-"),
        "Settled already",
        refused.sentence,
        outcome=(now.status if now.status is not RequestStatus.WAITING else RequestStatus.EXPIRED).value,
        decided_by=by.model_dump() if by else None,
        decided_at=rfc3339(decision.at) if decision else None,
    )


async def _now(site: Site, request_id: UUID) -> RequestView:
    view = await site.views.get(request_id)
    if view is None:
        raise finding.missing()
    return view
