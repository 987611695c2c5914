"""What is asked when a graph of LangGraph waits in an `interrupt`, and the graph itself, at one of its threads."""

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
"""Checkpoints that are read at once on the way back to the last pause; each has its state with it."""


class UnsupportedInterrupt(SignoffError):
    """The graph waits for an answer that people's yes or no cannot give. Nobody was asked, and it goes on waiting."""


class ExactModel(BaseModel):
    """A field that is not known may mean something that we would not honour."""

    model_config = ConfigDict(extra="forbid", strict=True)


def not_as_expected(what: str, error: ValidationError) -> UnsupportedInterrupt:
    """The error for an interrupt that is ``what``, with the places where it differs."""
    where = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    return UnsupportedInterrupt(f"the interrupt is {what} ({where})")


class Options(TypedDict, total=False):
    """How people are asked. `context`, `requester` and `agent` are those of `ApprovalClient.ask`, `lease` (an
    hour) is that of `claim`; `timeout` (30) is for each pause. `facts` are functions by action, of
    its arguments, or one of action and arguments: they are called for the question and again for the claim.

    With `idempotent` what follows an approval may be done twice: a process that was killed in the middle of it goes on
    when it is started again. Without, people are asked what became of it.
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
    """One action of an interrupt. `call_id` is the tool call's, where it is known."""

    action: str
    arguments: Mapping[str, Any]
    description: str | None
    editable: bool
    call_id: str | None = None
    key: str = ""


Claims = dict[str, tuple[InterruptQuestion, ClaimedAction]]
"""What this process may go on with, and has to report, by the questions' keys."""


@dataclass(frozen=True)
class InterruptRefusal:
    """It is not to be done. `reason` is the reviewer's, `words` say it all."""

    words: str
    reason: str | None
    error: SignoffError


class InterruptFormat(Protocol):
    """What one kind of interrupt says, and how it is answered."""

    def questions(self, interrupt: Any, values: Any) -> list[InterruptQuestion]:
        """What is asked, in order; `values` is the graph's state. Raises UnsupportedInterrupt."""

    def approved(
        self, question: InterruptQuestion, arguments: Mapping[str, Any], *, edited: bool, notes: Sequence[str]
    ) -> Any:
        """The answer that it may be done with these arguments; ``notes`` are those of its reviewers."""

    def refused(self, interrupt: Any, number: int, refusal: InterruptRefusal) -> Any:
        """The answer that this is not to be done; raises the refusal's error where there is no such answer."""

    def whole(self, interrupt: Any, answers: Sequence[Any]) -> Any:
        """The value that the interrupt returns."""


@dataclass(frozen=True)
class GraphThread:
    """A compiled graph at one thread, called in the manner of its client."""

    graph: Any
    config: Mapping[str, Any]
    asynchronous: bool

    def look(self) -> Operation[Any]:
        """The state as it stands."""
        look = self.graph.aget_state if self.asynchronous else self.graph.get_state
        return (yield CallFunction(lambda: look(self.config)))

    def go_on(self, told: Any) -> Operation[None]:
        """Run to the next pause or the end; each checkpoint is written before the next step begins."""
        go: Callable[..., Any] = self.graph.ainvoke if self.asynchronous else self.graph.invoke
        yield CallFunction(lambda: go(told, self.config, durability="sync"))

    def last_pause(self) -> Operation[Any]:
        """The latest state with interrupts, also answered ones, since the graph was last given something new to do."""
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
