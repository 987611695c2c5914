"""The questions of a LangGraph `interrupt`, and a graph at one of its threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypedDict

from pydantic import BaseModel, ConfigDict, ValidationError

from signoff.client import ClaimedAction
from signoff.client.effects import CallFunction, Operation
from signoff.client.facts import FactsByTool
from signoff.durations import Duration
from signoff.errors import SignoffError

PAGE = 20
"""Checkpoints per read on the way back to the last pause; each includes its state."""


class UnsupportedInterrupt(SignoffError):
    """The interrupt needs an answer other than yes or no. Nobody was asked, and the graph keeps waiting."""


class ExactModel(BaseModel):
    """Refuses unknown fields: they may mean something that we would not honour."""

    model_config = ConfigDict(extra="forbid", strict=True)


def not_as_expected(what: str, error: ValidationError) -> UnsupportedInterrupt:
    """The error for an interrupt that is ``what``, listing the invalid fields."""
    where = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return UnsupportedInterrupt(f"the interrupt is {what} ({where})")


class Options(TypedDict, total=False):
    """Options for asking people. `context`, `requester` and `agent` are those of `ApprovalClient.ask`, `lease`
    (default: an hour) is that of `claim`; `timeout` (default: 30) applies to each pause. `facts` are functions of the
    arguments, by action, or one function of action and arguments: called for the question and again for the claim.

    `idempotent`: what follows an approval may be repeated, so a process killed in the middle continues after a restart.
    Otherwise people are asked about the outcome.
    """

    timeout: Duration
    context: Any
    requester: str
    agent: str
    lease: Duration
    idempotent: bool
    facts: FactsByTool


@dataclass(frozen=True)
class InterruptQuestion:
    """One action of an interrupt. `call_id` is the tool call's id, if known."""

    action: str
    arguments: Mapping[str, Any]
    description: str | None
    editable: bool
    call_id: str | None = None
    key: str = ""


Claims = dict[str, tuple[InterruptQuestion, ClaimedAction]]
"""Claims that this process may act on and must report, by question key."""


@dataclass(frozen=True)
class InterruptRefusal:
    """The action must not be done. `reason` is the reviewer's, `words` the full message."""

    words: str
    reason: str | None
    error: SignoffError


class InterruptFormat(Protocol):
    """How to read and answer one kind of interrupt."""

    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:
        """The questions in order; `values` is the graph's state. Raises UnsupportedInterrupt."""

    def approved(
        self, question: InterruptQuestion, arguments: Mapping[str, Any], *, edited: bool, notes: Sequence[str]
    ) -> Any:
        """The answer for an approval with these arguments; ``notes`` are the reviewers'."""

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """The answer for a refusal; raises the refusal's error if there is no such answer."""

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        """The value that the interrupt returns."""


@dataclass(frozen=True)
class GraphThread:
    """A compiled graph at one thread, called synchronously or asynchronously to match its client."""

    graph: Any
    config: Mapping[str, Any]
    asynchronous: bool

    def look(self) -> Operation[Any]:
        look = self.graph.aget_state if self.asynchronous else self.graph.get_state
        return (yield CallFunction(lambda: look(self.config)))

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
