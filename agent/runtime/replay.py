"""Runs a function agent from its start through what is recorded to at most one new call, whose answer wakes the run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import structlog
from pydantic_core import to_jsonable_python

from agent.domain.request import RequestStatus, RequestView
from agent.domain.run import AnswerKind, CallView, ProposedCall, RunStatus, Turn
from agent.runtime import run_limits, stored_text
from agent.runtime.agents import Delegate
from agent.runtime.function_agents import (
    ASK,
    Decision,
    FunctionAgent,
    NonDeterministic,
    StepFailed,
    decode_result,
    journal,
)
from agent.runtime.services import Services
from agent.store import views
from agent.usecases import runs
from agent.usecases.runs import LeasedRun, MadeTurn
from agent.usecases.runs.resumption import GO_ON
from signoff.canonical import canonical_bytes, parse_arguments, plain_json
from signoff.errors import CollaborationError, MalformedArguments

log = structlog.get_logger(__name__)

_CAUSES = {
    AnswerKind.RESULT: "approved",
    AnswerKind.DONE_BY_PERSON: "approved",
    AnswerKind.REJECTED: "rejected",
    AnswerKind.EXPIRED: "expired",
    AnswerKind.WITHDRAWN: "withdrawn",
}


class _Suspended(BaseException):
    """Leaves the function past its `except Exception`.

    `except:` or `gather` can stop it: from then on nothing counts.
    """


@dataclass
class Replay:
    """The journal of one look: what is recorded, how far the function has come in it, and what it wants to do next."""

    services: Services
    leased: LeasedRun
    agent: FunctionAgent
    recorded: Sequence[CallView]
    repeats: Mapping[Any, CallView]
    asked: Mapping[Any, RequestView]
    position: int = 0
    proposed: ProposedCall | None = None
    broken: NonDeterministic | None = None
    status: str | None = field(default=None)
    left: bool = False
    over: bool = False

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """A step's result, from the record; or leave the function until there is one."""
        doing = self.agent.tool(tool)
        if doing is None:
            raise LookupError(f"{tool} is no step of {self.agent.name}: list it in tools=[…]")
        call = self._next(tool, arguments)
        kind, words = _answer(call)
        if kind is AnswerKind.RESULT:
            return words if isinstance(doing, Delegate) else decode_result(words)
        if kind is AnswerKind.DONE_BY_PERSON:
            return None
        if kind in (AnswerKind.REJECTED, AnswerKind.EXPIRED, AnswerKind.WITHDRAWN):
            self._decision(call).require()
        if kind is AnswerKind.STOPPED:
            raise _stopped(call, words)
        raise StepFailed(f"{tool}: {words or kind.value}")

    async def ask(self, arguments: Mapping[str, Any]) -> Decision:
        """People's decision, from the record; or leave the function until there is one."""
        return self._decision(self._next(ASK, arguments))

    async def tell(self, status: str) -> None:
        """Told only where the function has not been before; what it said on the way there is old news."""
        if self.position == len(self.recorded) and not (self.left or self.over):
            self.status = stored_text.storable_text(status)[:500]

    def outdated(self) -> str | None:
        """Why people's last approval (given to another version, and nobody resumed the run) covers no step, or None."""
        decisions = [
            (view.decision.at, view.agent_version)
            for view in self.asked.values()
            if view.status is RequestStatus.APPROVED and view.decision is not None
        ]
        at, version = max(decisions, default=(None, self.agent.version))
        if version == self.agent.version or self.proposed is None or self.proposed.tool == ASK:
            return None
        if any(said.text == GO_ON and at is not None and said.at > at for said in self.leased.messages):
            return None
        return (
            f"people approved what version {version} of this agent would do, and it is version {self.agent.version} "
            f"now: {self.proposed.tool} was not executed; who resumes the run lets it go on under this version"
        )

    def _next(self, tool: str, arguments: Mapping[str, Any]) -> CallView:
        if self.left or self.over:
            raise _Suspended  # whatever of the function goes on after it was left, or has ended
        wanted = _plain(tool, arguments)
        if self.position < len(self.recorded):
            call = self.recorded[self.position]
            self._compare(call, tool, wanted)
            self.position += 1
            if call.answer is None:
                raise self._leave()
            return self._latest(call)
        if self.position >= self.agent.max_steps:
            raise StepFailed(f"more than {self.agent.max_steps} steps (max_steps)")
        self.proposed = ProposedCall(f"step_{self.position + 1}", tool, stored_text.escape_json(wanted))
        raise self._leave()

    def _leave(self) -> _Suspended:
        self.left = True
        return _Suspended()

    def _compare(self, call: CallView, tool: str, wanted: str) -> None:
        try:
            before = canonical_bytes(parse_arguments(call.raw_arguments))
        except MalformedArguments:
            before = call.raw_arguments.encode()
        if call.tool == tool and before == wanted.encode():
            return
        self.broken = NonDeterministic(
            f"step {self.position + 1} was {call.tool} {call.raw_arguments} and is {tool} {wanted} now: "
            "what lies between the steps must come out the same every time; nothing was executed"
        )
        raise self._leave()

    def _latest(self, call: CallView) -> CallView:
        """An expired question counts by the answer that it had, asked again perhaps, when the function went on."""
        following = self.recorded[self.position] if self.position < len(self.recorded) else None
        while (again := self.repeats.get(call.id)) is not None and _is_answered(again, following):
            call = again
        return call

    def _decision(self, call: CallView) -> Decision:
        kind, words = _answer(call)
        cause = _CAUSES.get(kind, "denied")
        view = self.asked.get(call.request_id)
        decided = view.decision if view else None
        approved = cause == "approved"
        return Decision(
            approved=approved,
            cause=cause,
            reason=(decided.reason if decided else None) or (None if approved else words or None),
            reviewer=decided.person if decided else None,
            request_id=call.request_id,
            arguments=decode_result(words) if approved and kind is AnswerKind.RESULT else None,
            notes=view.notes if view else (),
        )


async def advance_function(services: Services, leased: LeasedRun, agent: FunctionAgent) -> None:
    """Run the function as far as it goes now, and write down what that led to. Raises LeaseLost."""
    replay = await _replay(services, leased, agent)
    if (limit := await run_limits.overtime(services, leased, agent)) is not None:
        await _ended(replay, RunStatus.FAILED, limit, limit)
        return
    token = journal.set(replay)
    answer: Any = None
    raised: Exception | None = None
    try:
        answer = await services.user_code.call(
            partial(_run, replay, leased.run.task), {}, name=f"agent {agent.name}", within=agent.seconds
        )
    except Exception as error:  # whatever the author may raise
        raised = error
    finally:
        journal.reset(token)
        replay.over = True
    await _came_out(replay, answer, raised)


async def _run(replay: Replay, task: str) -> Any:
    """Runs in the loop of user code. The author's own tasks are left behind and can do nothing any more."""
    if replay.agent.function is None:
        raise AssertionError("a function agent has a function")
    arguments = [task] if inspect.signature(replay.agent.function).parameters else []
    try:
        return await replay.agent.function(*arguments)
    finally:
        replay.over = True


async def _replay(services: Services, leased: LeasedRun, agent: FunctionAgent) -> Replay:
    ids = [call.request_id for call in leased.calls if call.request_id is not None]
    async with services.db.connection() as connection:
        questions = await views.request_views(connection, ids) if ids else []
    return Replay(
        services,
        leased,
        agent,
        recorded=[call for call in leased.calls if call.repeats is None],
        repeats={call.repeats: call for call in leased.calls if call.repeats is not None},
        asked={view.id: view for view in questions},
    )


async def _came_out(replay: Replay, answer: Any, raised: Exception | None) -> None:
    """The end of one look. A function that was left is not done, however it came out of that."""
    if replay.left:
        await _left(replay)
    elif isinstance(raised, CollaborationError):
        await _ended(replay, RunStatus.DENIED, raised.cause, f"{type(raised).__name__}: {raised}")
    elif raised is not None:
        told = stored_text.log_text(raised, {"task": replay.leased.run.task})
        await _ended(replay, RunStatus.FAILED, stored_text.error_text(raised), told)
    else:
        await _returned(replay, answer)


async def _left(replay: Replay) -> None:
    """The function waits: for a new call, which is proposed now, or for one that has no answer yet."""
    if replay.broken is not None:
        await _ended(replay, RunStatus.FAILED, str(replay.broken), str(replay.broken))
        return
    await _publish(replay)
    db, leased = replay.services.db, replay.leased
    if (outdated := replay.outdated()) is not None:
        await _ended(replay, RunStatus.FAILED, outdated, outdated)
        return
    if replay.proposed is None:
        await runs.release(db, leased.lease, leased.heard)
        return
    turn = Turn(None, (replay.proposed,), 0, leased.heard, "tool_calls")
    await replay.services.joint_writes.turns.join(MadeTurn(leased.lease, turn))
    log.info("step", action="run.step", run_id=str(leased.run.id), tool=replay.proposed.tool)


async def _returned(replay: Replay, answer: Any) -> None:
    if (left := len(replay.recorded) - replay.position) > 0:
        words = f"the function ended {left} recorded steps too early; it must come out the same every time"
        await _ended(replay, RunStatus.FAILED, words, words)
        return
    await _publish(replay)
    text = None if answer is None else stored_text.result_text(answer)
    turn = Turn(text or "Done.", (), 0, replay.leased.heard)
    await replay.services.joint_writes.turns.join(MadeTurn(replay.leased.lease, turn))


async def _ended(replay: Replay, status: RunStatus, cause: str, words: str) -> None:
    leased = replay.leased
    await runs.end(replay.services.db, leased.lease, status, cause)
    log.error(
        words, action="run.stopped" if status is RunStatus.DENIED else "run.failed", run_id=str(leased.run.id)
    )


async def _publish(replay: Replay) -> None:
    if replay.status is not None and replay.status != replay.leased.run.progress:
        await runs.set_status(replay.services.db, replay.leased.lease, replay.status)


def _is_answered(call: CallView, following: CallView | None) -> bool:
    """Whether the call has its answer, and had it before ``following`` was proposed."""
    if call.answer is None or following is None:
        return call.answer is not None
    if call.answered_at is None or following.created_at is None:
        return False
    return call.answered_at < following.created_at


def _stopped(call: CallView, words: str) -> CollaborationError:
    """The agent below was stopped by a person, or by nobody's answer: so is this one, unless it knows better."""
    cause, _, reason = words.partition(": ")
    known: Mapping[str, Literal["expired", "withdrawn"]] = {"expired": "expired", "withdrawn": "withdrawn"}
    return CollaborationError(
        known.get(cause, "rejected"), request_id=f"below call {call.id}", reason=reason or None
    )


def _answer(call: CallView) -> tuple[AnswerKind, str]:
    if call.answer is None:
        raise AssertionError("a call without an answer leaves the function")
    return call.answer.kind, call.answer.text


def _plain(tool: str, arguments: Mapping[str, Any]) -> str:
    try:
        return canonical_bytes(plain_json(to_jsonable_python(dict(arguments)))).decode()
    except (MalformedArguments, ValueError) as error:
        raise StepFailed(f"{tool}: its arguments are no JSON: {error}") from None
