"""What a format of LangGraph interrupts provides, and a thread; the formats are in `langgraph` and `langchain`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypedDict

from langgraph.types import StateSnapshot
from pydantic import BaseModel, ConfigDict, ValidationError

from signoff.client import ClaimedAction
from signoff.client.effects import CallFunction, Operation
from signoff.client.facts import FactsByTool
from signoff.durations import Duration
from signoff.errors import SignoffError
from signoff.integrations.questions import Question
from signoff.json_form import malformed
from signoff.sessions import session_named

PAGE = 20
"""Checkpoints per read on the way back to the last pause; each includes its state."""


class UnsupportedInterrupt(SignoffError):
    """The interrupt needs an answer that people cannot give. Nobody was asked, and the graph keeps waiting."""


class ExactModel(BaseModel):
    """An unknown field may mean something that we would not honour."""

    model_config = ConfigDict(extra="forbid", strict=True)


def not_as_expected(what: str, error: ValidationError) -> UnsupportedInterrupt:
    """Return the error for an interrupt that does not fit its format, with what is malformed."""
    return UnsupportedInterrupt(f"the interrupt is {what} ({malformed(error)})")


class Options(TypedDict, total=False):
    """Options for asking people.

    `context`, `requester`, `agent` and `session` (default: the thread) are those of `ApprovalClient.ask`, `lease`
    (default: an hour) is that of `claim`; `timeout` applies to each pause (default: as long as policy says, else 30 s).
    `facts` are functions of the arguments, by action, or one function of action and arguments: called for the question
    and again for the claim.
    `idempotent`: a process killed after an approval repeats what follows; otherwise people are asked about the outcome.
    """

    timeout: Duration
    context: Any
    requester: str
    agent: str
    session: str | None
    lease: Duration
    idempotent: bool
    facts: FactsByTool


@dataclass(frozen=True)
class MadeCall:
    """A tool call of a model's message: later messages may repeat its id."""

    message: str | None
    id: str | None


def values_asking(state: Any, interrupt: Any) -> Any:
    """The values of the graph, or of the graph within it, that asks. None: they are not at hand, as in its history."""
    for task in state.tasks:
        if task.state is not None and any(each.id == interrupt.id for each in task.interrupts):
            return values_asking(task.state, interrupt) if isinstance(task.state, StateSnapshot) else None
    return state.values


def made_calls(messages: Sequence[Any]) -> tuple[str | None, list[Any]]:
    """The last message with tool calls, by its id, and these calls."""
    for each in reversed(messages):
        if calls := getattr(each, "tool_calls", None):
            return each.id, calls
    return None, []


@dataclass(frozen=True)
class InterruptQuestion:
    """A question about one action of an interrupt, or for an answer; if it is `unusable`, nobody is asked."""

    action: str
    arguments: Mapping[str, Any]
    description: str | None
    editable: bool
    call: MadeCall | None = None
    key: str = ""
    changed: bool = False
    """The tool's types changed what the graph would run: it must be handed these arguments."""
    unusable: SignoffError | None = None
    """Nobody is asked."""
    answer: Question | None = None
    """What people are asked for; no action is approved then."""


Claims = dict[str, tuple[InterruptQuestion, ClaimedAction]]
"""By question key; this process must report them."""


@dataclass(frozen=True)
class InterruptRefusal:
    """`reason` is the reviewer's, `words` the full message."""

    words: str
    reason: str | None
    error: SignoffError


class InterruptFormat(Protocol):
    """A format of interrupts: reads the questions from one, and writes the answer that it expects."""

    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:
        """`values` is the state of the graph that asks, if it is at hand. Raises UnsupportedInterrupt."""

    def approved(
        self, question: InterruptQuestion, arguments: Mapping[str, Any], *, edited: bool, notes: Sequence[str]
    ) -> Any:
        """``notes`` are the reviewers'."""

    def check_judged(self, question: InterruptQuestion, arguments: Mapping[str, Any]) -> None:
        """Raises MalformedArguments, with the path, if the tool would get something else."""

    def answered(self, value: Any) -> Any:
        """``value`` is what people answered."""

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """Raises the refusal's error if the format has no such answer."""

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        """Return the value of the interrupt."""


@dataclass(frozen=True)
class GraphThread:
    """A compiled graph at one thread, sync or async like its client."""

    graph: Any
    config: Mapping[str, Any]
    asynchronous: bool

    @property
    def session(self) -> str | None:
        """The thread is the conversation."""
        return session_named(self.config.get("configurable", {}).get("thread_id"))

    def look(self) -> Operation[Any]:
        """The state, with those of the graphs within it."""
        look = self.graph.aget_state if self.asynchronous else self.graph.get_state
        return (yield CallFunction(lambda: look(self.config, subgraphs=True)))

    def go_on(self, command: Any) -> Operation[None]:
        """Run to the next pause or the end, writing each checkpoint before the next step begins."""
        go: Callable[..., Any] = self.graph.ainvoke if self.asynchronous else self.graph.invoke
        yield CallFunction(lambda: go(command, self.config, durability="sync"))

    def last_pause(self) -> Operation[Any]:
        """The latest state with interrupts, answered or not, since the graph last received new input."""
        before: Any = None
        while True:
            past = yield CallFunction(partial(self._past, before))
            for state in past:
                if state.interrupts:
                    return state
                if state.metadata and state.metadata["source"] == "input":
                    return None
            if len(past) < PAGE:
                return None
            before = past[-1].config

    def _past(self, before: Any) -> Any:
        if self.asynchronous:
            return _listed(self.graph.aget_state_history(self.config, before=before, limit=PAGE))
        return list(self.graph.get_state_history(self.config, before=before, limit=PAGE))


async def _listed(states: AsyncIterator[Any]) -> list[Any]:
    return [state async for state in states]
