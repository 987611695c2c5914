"""Replay a function agent through its recorded calls to its next steps, whose answers wake the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from agent.domain.ancestors import label_of
from agent.domain.request import ASK, RequestStatus
from agent.domain.run import CallView, RunStatus, Turn
from agent.runtime import run_limits, stored_text
from agent.runtime.function_agents import FunctionAgent
from agent.runtime.function_journal import FunctionJournal
from agent.runtime.services import Services
from agent.runtime.step_tools import SLEEP
from agent.runtime.steps import journal
from agent.store import views
from agent.usecases import runs
from agent.usecases.runs import LeasedRun, MadeTurn
from agent.usecases.runs.resumption import GO_ON
from signoff.errors import CollaborationError

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Look:
    services: Services
    leased: LeasedRun
    journal: FunctionJournal


async def advance_function(services: Services, leased: LeasedRun, agent: FunctionAgent) -> None:
    """Raises LeaseLost."""
    look = _Look(services, leased, await _journal(services, leased, agent))
    if (limit := await run_limits.overtime(services, leased, agent)) is not None:
        await _end(look, RunStatus.FAILED, limit, limit)
        return
    token = journal.set(look.journal)
    answer: Any = None
    raised: Exception | None = None
    try:
        answer = await services.user_code.call(
            look.journal.run, {"task": leased.run.task}, name=f"agent {agent.name}", within=agent.seconds
        )
    except Exception as error:
        raised = error
    finally:
        journal.reset(token)
        look.journal.over = True
    await _store_end(look, answer, raised)


async def _journal(services: Services, leased: LeasedRun, agent: FunctionAgent) -> FunctionJournal:
    ids = [call.request_id for call in leased.calls if call.request_id is not None]
    questions = await services.db.read(views.request_views, ids) if ids else []
    return FunctionJournal(
        agent,
        recorded=[call for call in leased.calls if call.repeats is None],
        repeats={call.repeats: call for call in leased.calls if call.repeats is not None},
        asked={view.id: view for view in questions},
    )


async def _store_end(look: _Look, answer: Any, raised: Exception | None) -> None:
    """A function that was left is not finished, whatever it then did."""
    error = _cause(raised)
    if look.journal.broken is not None:
        words = str(look.journal.broken)
        await _end(look, RunStatus.FAILED, words, words)
    elif look.journal.left:
        await _left(look)
    elif isinstance(error, CollaborationError):
        await _end(look, RunStatus.DENIED, error.cause, f"{type(error).__name__}: {error}")
    elif error is not None:
        logged = stored_text.log_text(error, {"task": look.leased.run.task})
        await _end(look, RunStatus.FAILED, stored_text.error_text(error), logged)
    else:
        await _returned(look, answer)


def _cause(raised: BaseException | None) -> BaseException | None:
    """A failed task group's cause: a person's rejection, or else the first error."""
    if not isinstance(raised, BaseExceptionGroup):
        return raised
    causes = [_cause(each) for each in raised.exceptions]
    return next((each for each in causes if isinstance(each, CollaborationError)), causes[0])


async def _left(look: _Look) -> None:
    await _publish(look)
    if (outdated := _outdated(look)) is not None:
        await _end(look, RunStatus.FAILED, outdated, outdated)
        return
    await _withdraw(look, look.journal.abandoned)
    leased, proposed = look.leased, look.journal.proposed
    if not proposed:
        await runs.release(look.services.db, leased.lease, leased.heard)
        return
    turn = Turn(None, proposed, 0, leased.heard, "tool_calls")
    await look.services.joint_writes.turns.join(MadeTurn(leased.lease, turn))
    for call in proposed:
        log.info("step", action="run.step", run_id=str(leased.run.id), tool=call.tool)


async def _returned(look: _Look, answer: Any) -> None:
    if (missed := look.journal.missed) > 0:
        words = (
            f"the function ended {missed} recorded steps too early; it must take the same steps every time"
        )
        await _end(look, RunStatus.FAILED, words, words)
        return
    await _publish(look)
    leased = look.leased
    if look.journal.unanswered:
        await _withdraw(look, look.journal.unanswered)
        await runs.release(look.services.db, leased.lease, leased.heard)
        return
    try:
        text = None if answer is None else stored_text.answer_text(answer)
    except ValueError as error:
        words = f"its result cannot be stored: {error}. {_ONLY_THE_RESULT}"
        await _end(look, RunStatus.FAILED, words, words)
        return
    turn = Turn(text or "Done.", (), 0, leased.heard)
    await look.services.joint_writes.turns.join(MadeTurn(leased.lease, turn))


_ONLY_THE_RESULT = (
    "All of its steps are done: correct what the function returns, then resume the run; no step is repeated."
)


async def _withdraw(look: _Look, abandoned: Sequence[CallView]) -> None:
    for call in abandoned:
        await runs.withdraw_call(look.services.db, call.id, f"agent:{look.leased.run.agent}")


async def _end(look: _Look, status: RunStatus, cause: str, words: str) -> None:
    leased = look.leased
    await runs.end(look.services.db, leased.lease, status, cause)
    log.error(
        words, action="run.stopped" if status is RunStatus.DENIED else "run.failed", run_id=str(leased.run.id)
    )


async def _publish(look: _Look) -> None:
    run, logged, label = look.leased.run, look.journal.status, label_of(look.journal.label)
    if logged not in (None, run.progress) or label not in (None, run.label):
        await runs.set_status(look.services.db, look.leased.lease, logged, label)


def _outdated(look: _Look) -> str | None:
    """Why people's last approval (of another version, without a resumption since) covers no step."""
    agent = look.journal.agent
    begun = [call.tool for call in look.journal.proposed if call.tool not in (ASK, SLEEP)]
    decisions = [
        (view.decision.at, view.agent_version)
        for view in look.journal.asked.values()
        if view.status is RequestStatus.APPROVED and view.decision is not None
    ]
    at, version = max(decisions, default=(None, agent.version))
    if version == agent.version or not begun:
        return None
    if any(said.text == GO_ON and at is not None and said.at > at for said in look.leased.messages):
        return None
    return (
        f"people approved this under version {version} of the agent, which is now at version {agent.version}, "
        f"so {begun[0]} was not executed; resume the run to continue under version {agent.version}"
    )
