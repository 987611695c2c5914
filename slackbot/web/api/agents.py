"""Agents as an inbox: start one, list what waits, respond, cancel."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import APIRouter, Header, Request, Response
from pydantic import Field, StringConstraints

from agent.domain.ancestors import MAX_LABEL
from agent.domain.api_keys import Principal, Scope
from agent.domain.errors import NotFound, Refusal, Refused
from agent.domain.request import Verdict
from agent.domain.run import PendingQuestion, RunLine, RunStatus
from agent.store import views
from agent.store.views import RunList
from agent.usecases import runs
from slackbot.masking import NOT_SECRET
from slackbot.reviewing.cancel import cancel
from slackbot.reviewing.run_starts import MAX_TASK
from slackbot.web.api.key_votes import PATH, cast_key_vote, key_owner
from slackbot.web.api.requesters import UserId, claimed_requester
from slackbot.web.api.run_starts import NO_SUCH_RUN, agent_named, clean_run_lines, run_for, start
from slackbot.web.api.shapes import Moment, PersonOut, RequestModel, ResponseModel
from slackbot.web.http.api_keys import Asker, Lister, Reader
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.one_list import ONE_LIST, After, Limit
from slackbot.web.http.problems import ProblemRaised, documented

router = APIRouter(route_class=StrictRoute, tags=["Agents"])

Task = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TASK, pattern=r"\S")]
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]
SessionName = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]+$", min_length=1, max_length=200), NOT_SECRET
]
"""A program's own name for a conversation, or for its user."""
Label = Annotated[str, StringConstraints(min_length=1, max_length=MAX_LABEL, pattern=r"\S")]
Reason = Annotated[str, StringConstraints(max_length=2000)]
IdempotencyKey = Annotated[
    Key | None, Header(alias="Idempotency-Key", description="The same as `start_key`, as a header.")
]


class AgentStart(RequestModel):
    """The agent and its task. Repeating a `start_key` starts nothing new."""

    name: Annotated[str, Field(max_length=200, examples=["data_manager"])]
    task: Annotated[Task, Field(examples=["delete 50 old records from the users table"])]
    requester: Annotated[UserId | None, Field(examples=[None])] = None
    start_key: Annotated[Key | None, Field(examples=["cleanup-2026-11-21"])] = None
    label: Annotated[Label | None, Field(examples=["EU, Monday"])] = None


class QuestionOut(ResponseModel):
    """A request for review that the agent waits for.

    `agent` is the agent that asks: this one, or one that it delegated a task to. `above` lists the agents between the
    top and `agent`, topmost first.
    """

    request_id: UUID
    agent: str
    above: list[str]
    question: str
    revision: int
    approvals: int
    approvals_required: int
    expires_at: Moment

    @classmethod
    def of(cls, line: PendingQuestion) -> QuestionOut:
        return cls.copy_of(line, question=question(line.description))


class AgentStatus(ResponseModel):
    """An agent working on a task.

    `status` is `pending_approval` while a person's decision is needed, and `question` is then what people are asked;
    `requests` lists every open request, including those of agents that this one delegated to. `above` lists the agents
    that delegated the task to this one, topmost first. `in_doubt` counts calls whose outcome is unknown. `cause` says
    why a run was denied, failed or was cancelled.
    """

    agent_id: UUID
    name: str
    label: str | None
    above: list[str]
    task: str
    status: RunStatus
    created_at: Moment
    question: str | None
    updated_at: Moment
    requester: PersonOut | None
    progress: str | None
    answer: str | None
    cause: str | None
    waiting: int
    in_doubt: int
    sleeping_until: Moment | None
    requests: list[QuestionOut]

    @classmethod
    def of(cls, line: RunLine) -> Self:
        """The line is masked by `clean_run_lines`."""
        run, asked = line.run, [QuestionOut.of(each) for each in line.asked]
        more = f" (and {run.asked - 1} more)" if run.asked > 1 else ""
        return cls.copy_of(
            run,
            agent_id=run.id,
            name=run.agent,
            status=run.shown,
            question=f"{asked[0].question}{more}" if asked else None,
            waiting=run.asked,
            requests=asked,
        )


class AgentStarted(AgentStatus):
    """The started run."""

    ok: Literal[True] = True


class HumanResponse(RequestModel):
    """A person's decision; `confirm` is `approve`. `request_id` selects the request if the agent waits for several.

    `revision` is the revision that the person saw; it is required to approve an edited request. With both fields, the
    call is refused if the agent has moved on to another question.
    """

    response: Annotated[Literal["approve", "confirm", "deny"], Field(examples=["approve"])]
    reason: Annotated[Reason | None, Field(examples=["checked with Ada"])] = None
    request_id: Annotated[UUID | None, Field(examples=[None])] = None
    revision: Annotated[int | None, Field(ge=1, le=2**31 - 1, examples=[None])] = None


class Responded(ResponseModel):
    """The vote counts. `status` stays `waiting` while more approvals are needed."""

    ok: Literal[True] = True
    request_id: UUID
    status: str
    approvals: int
    needed: int


class Cancelled(ResponseModel):
    """The run has ended; `cancelled` is false if it had already ended."""

    ok: Literal[True] = True
    cancelled: bool


def question(description: str) -> str:
    """Word an action's description as a question, unless it already ends as one."""
    return description if description.endswith("?") else f"Should I proceed: {description}?"


@router.post(
    "/agents",
    operation_id="start_agent",
    status_code=201,
    responses={
        200: {"model": AgentStarted, "description": "It was started before"},
        **documented(401, 403, 404, 409, 413, 422, 429, 503),
    },
)
async def start_agent(
    request: Request, response: Response, body: AgentStart, caller: Asker, key: IdempotencyKey = None
) -> AgentStarted:
    """Start an agent on a task. Returns 200 instead of 201 if this `start_key` (or `Idempotency-Key`) was used before.

    The run gets its own Slack thread, where people can follow it and talk to the agent.
    """
    ctx = web_context(request)
    agent = agent_named(ctx, body.name)
    requester = claimed_requester(ctx, caller, body.requester)
    started = await start(
        ctx, caller, agent, body.task, requester, start_key=body.start_key or key, label=body.label
    )
    if not started.created:
        response.status_code = 200
    return AgentStarted.of(await _line(ctx, started.run_id))


async def _listed(
    request: Request, response: Response, caller: Principal, which: RunList, limit: int, after: UUID | None
) -> list[AgentStatus]:
    ctx = web_context(request)
    own = None if caller.sees_all else caller.name
    listed = await ctx.db.read(
        views.run_lines, ctx.slack.team_id, which, principal=own, limit=limit, after=after
    )
    if listed.next is not None:
        following = request.url.include_query_params(limit=limit, cursor=listed.next.hex)
        response.headers["Link"] = f'<{following.path}?{following.query}>; rel="next"'
    return [AgentStatus.of(line) for line in await clean_run_lines(ctx, listed.lines)]


def _list_route(which: RunList, words: str) -> None:
    async def listed(
        request: Request, response: Response, caller: Lister, limit: Limit = 50, after: After = None
    ) -> list[AgentStatus]:
        return await _listed(request, response, caller, which, limit, after)

    router.add_api_route(
        f"/agents/{which}",
        listed,
        methods=["GET"],
        dependencies=[ONE_LIST],
        responses=documented(401, 403, 422, 429, 503),
        operation_id=f"list_{which}_agents",
        summary=f"List {which} agents",
        description=f'{words} Newest first; a `Link` header with `rel="next"` leads to more. '
        "A page ends after `limit` runs or some 256 KiB, and a key gets one list at a time. "
        "A key without the scope `read` sees the runs that it has started itself.",
    )


_list_route(RunList.ACTIVE, "Agents that are working or waiting for people.")
_list_route(RunList.WAITING, "Agents that wait for people.")
_list_route(RunList.APPROVED, "Agents that completed their task.")
_list_route(RunList.DENIED, "Agents that ended because of a rejection or an expired request.")
_list_route(RunList.FAILED, "Agents that ended with an error.")
_list_route(RunList.CANCELLED, "Agents that somebody stopped.")


@router.get(
    "/agents/{agent_id}", operation_id="get_agent", responses=documented(401, 403, 404, 422, 429, 503)
)
async def get_agent(request: Request, agent_id: UUID, caller: Reader) -> AgentStatus:
    """The current state of one agent."""
    ctx = web_context(request)
    (line,) = await clean_run_lines(ctx, [await run_for(ctx, caller, agent_id)])
    return AgentStatus.of(line)


@router.post(
    "/agents/{agent_id}/respond",
    operation_id="respond_to_agent",
    responses=documented(401, 403, 404, 409, 413, 422, 429, 503),
)
async def respond_to_agent(
    request: Request, agent_id: UUID, body: HumanResponse, caller: Reader
) -> Responded:
    """Approve or deny an agent's request as the owner of this key. Needs the scope `decide`.

    409 if nothing waits, or if several requests wait and the body names none: the response lists them.
    """
    ctx = web_context(request)
    (line,) = await clean_run_lines(ctx, [await run_for(ctx, caller, agent_id)])
    asked = _chosen(line, body.request_id)
    person = await key_owner(ctx, caller, [(asked.request_id, asked.revision)])
    verdict = Verdict.REJECT if body.response == "deny" else Verdict.APPROVE
    voted = await cast_key_vote(
        ctx,
        caller,
        person,
        asked.request_id,
        verdict,
        body.reason,
        named=body.revision,
        present=asked.revision,
    )
    return Responded(
        request_id=asked.request_id,
        status=voted.status.value,
        approvals=voted.approvals,
        needed=voted.needed,
    )


def _chosen(line: RunLine, request_id: UUID | None) -> PendingQuestion:
    """Raises ProblemRaised."""
    if request_id is not None:
        found = next((each for each in line.asked if each.request_id == request_id), None)
        if found is None:
            words = "This agent does not wait for that request, or no longer does."
            raise ProblemRaised(409, "nothing-waits", "Nothing waits", words)
        return found
    if not line.asked:
        words = f"This agent is not waiting for an answer; its status is {line.run.shown}."
        raise ProblemRaised(409, "nothing-waits", "Nothing waits", words)
    if len(line.asked) > 1:
        waiting = [QuestionOut.of(each).model_dump(mode="json") for each in line.asked]
        words = "Several requests wait; name yours with `request_id`."
        raise ProblemRaised(409, "several-wait", "Several requests wait", words, waiting=waiting)
    return line.asked[0]


@router.delete(
    "/agents/{agent_id}",
    operation_id="cancel_agent",
    responses=documented(401, 403, 404, 422, 429, 503),
)
async def cancel_agent(request: Request, agent_id: UUID, caller: Reader) -> Cancelled:
    """Cancel an agent: completed calls stay done, open requests are withdrawn.

    Allowed for the key that started the run, and for a key whose owner is the requester or a reviewer of its requests.
    """
    ctx = web_context(request)
    return Cancelled(cancelled=await stop_run(ctx, caller, await run_for(ctx, caller, agent_id)))


async def stop_run(ctx: WebContext, caller: Principal, line: RunLine) -> bool:
    """False if it already ended. Raises Refused."""
    if caller.name == line.run.principal and caller.may(Scope.REQUEST):
        return await runs.cancel_by_program(ctx.db, line.run.id, caller.name)
    if caller.owner is None or not (caller.may(Scope.REQUEST) or caller.may(Scope.DECIDE)):
        raise Refused(Refusal.NOT_YOUR_RUN)
    return await cancel(
        ctx.db,
        ctx.slack.directory,
        caller.owner,
        line.run.id,
        path=PATH,
        as_reviewer=caller.may(Scope.DECIDE),
    )


async def _line(ctx: WebContext, run_id: UUID) -> RunLine:
    line = await ctx.db.read(views.run_line, run_id)
    if line is None:
        raise NotFound(NO_SUCH_RUN)
    return (await clean_run_lines(ctx, [line]))[0]
