"""Matches a running function agent with its run's record.

Calls recorded while no other was open are matched by number, calls open beside others by place (`branches`). Answers
come in their recorded order, so even a race between tasks ends as before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from agent.domain.request import ASK
from agent.domain.request_view import RequestView
from agent.domain.run import CallView, ProposedCall
from agent.runtime import recorded_answers, stored_text
from agent.runtime.branches import Branch, branch, settle
from agent.runtime.function_agents import FunctionAgent
from agent.runtime.step_tools import SLEEP, SleepTool
from agent.runtime.steps import Answer, Decision, NonDeterministic, StepFailed
from signoff.canonical import canonical_bytes, parse_arguments
from signoff.description import bounded
from signoff.errors import MalformedArguments
from signoff.json_form import written, written_by_type

MAX_STATUS = 1_500


class Suspended(BaseException):
    """Leaves a replayed function, past its `except Exception`."""


@dataclass(eq=False)
class Entry:
    """A call that a function agent makes during its replay, with its recorded call if there is one."""

    tool: str
    arguments: str
    place: str
    call: CallView | None
    """Recorded earlier; None: new."""
    heard: asyncio.Future[CallView]
    waiting: int = 0
    dropped: bool = False
    """The waiting task was cancelled."""


@dataclass
class FunctionJournal:
    """One replay of a function agent: it answers recorded calls in their order and collects new ones."""

    agent: FunctionAgent
    recorded: Sequence[CallView]
    repeats: Mapping[UUID | None, CallView]
    asked: Mapping[UUID | None, RequestView]
    entries: list[Entry] = field(default_factory=list, init=False)
    broken: NonDeterministic | None = field(default=None, init=False)
    status: str | None = field(default=None, init=False)
    label: str | None = field(default=None, init=False)
    left: bool = field(default=False, init=False)
    """The function waits for what is not recorded."""
    over: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._one_by_one = [call for call in self.recorded if call.place is None]
        self._by_place = {call.place: call for call in self.recorded if call.place is not None}
        made = [call.created_at for call in self._by_place.values() if call.created_at is not None]
        self._branched_at = min(made, default=None)

    # --- what the function calls ------------------------------------------------------------------------------

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> Entry:
        """The next step or question. Raises LookupError and StepFailed."""
        self._check_open()
        if self.agent.tool(tool) is None:
            raise LookupError(f"{tool} is not a step of {self.agent.name}: list it in tools=[…]")
        here = _here()
        wanted, place = _plain(tool, arguments), here.next_place()
        call = self._recorded_at(place)
        if call is None and len(self.entries) >= self.agent.max_steps:
            raise StepFailed(f"more than {self.agent.max_steps} steps (max_steps)")
        if call is not None:
            self._compare(call, tool, wanted)
        entry = Entry(tool, wanted, place, call, asyncio.get_running_loop().create_future())
        self.entries.append(entry)
        if call is not None and self._at_once(call):
            entry.heard.set_result(self._latest(call))
        here.moved.set()
        return entry

    async def outcome(self, entry: Entry) -> Any:
        """A step's recorded result; without one, waits for the rest of the replay."""
        call = await self._answered_call(entry)
        return recorded_answers.result(call, self.agent.tool(call.tool), self.asked.get(call.request_id))

    async def ask(self, arguments: Mapping[str, Any]) -> Decision:
        """People's recorded decision; without one, waits like a step."""
        call = await self._answered_call(self.begin(ASK, arguments))
        return recorded_answers.decision(call, self.asked.get(call.request_id))

    async def ask_for(self, arguments: Mapping[str, Any]) -> Answer:
        """People's recorded answer; without one, waits like a step."""
        call = await self._answered_call(self.begin(ASK, arguments))
        return recorded_answers.answer(call, self.asked.get(call.request_id))

    async def sleep(self, seconds: float) -> None:
        """Continue after this time by the database's clock."""
        if not isinstance(self.agent.tool(SLEEP), SleepTool):
            raise LookupError(  # noqa: TRY004 - its name is taken
                f'{self.agent.name} has its own step named "{SLEEP}": give it another name'
            )
        await self.outcome(self.begin(SLEEP, {"seconds": seconds}))

    async def tell(self, status: str | None = None, label: str | None = None) -> None:
        """Earlier statuses are outdated, so set it only in new parts."""
        if self.missed == 0 and not self.over:
            self.status = (
                self.status if status is None else bounded(stored_text.storable_text(status), MAX_STATUS)
            )
            self.label = self.label if label is None else stored_text.storable_text(label)

    # --- how far it has come ----------------------------------------------------------------------------------

    @property
    def missed(self) -> int:
        """Recorded steps that were not reached."""
        return len(self.recorded) - sum(entry.call is not None for entry in self.entries)

    @property
    def unanswered(self) -> list[CallView]:
        return [entry.call for entry in self.entries if entry.call is not None and entry.call.answer is None]

    @property
    def abandoned(self) -> list[CallView]:
        """Open calls without a waiting task."""
        return [
            call for entry in self.entries if entry.dropped and (call := entry.call) and call.answer is None
        ]

    @property
    def proposed(self) -> tuple[ProposedCall, ...]:
        """Calls have places if others are open beside them."""
        new = [entry for entry in self.entries if entry.call is None and not entry.dropped]
        beside = len(new) > 1 or bool(self._by_place or self.unanswered)
        return tuple(
            ProposedCall(
                f"step_{len(self.recorded) + number}",
                entry.tool,
                stored_text.escape_json(entry.arguments),
                entry.place if beside else None,
            )
            for number, entry in enumerate(new, 1)
        )

    async def run(self, task: str) -> Any:
        """Run in the loop of user code. Tasks end with the replay."""
        root = Branch([], asyncio.Event())
        main = root.start(self.agent.begin(task))
        try:
            while True:
                await settle(root, self._count_waiting)
                if main.done() or self.broken is not None or not self._give_next():
                    break
            self.left = not main.done()
            if self.broken is not None and main.done():
                main.exception()  # leaving the function is no error
            return None if self.left or self.broken is not None else main.result()
        finally:
            self.over = True
            root.cancel()

    # --- parts ------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.over or self.broken is not None:
            raise Suspended

    def _recorded_at(self, place: str) -> CallView | None:
        number = len(self.entries)
        return self._one_by_one[number] if number < len(self._one_by_one) else self._by_place.get(place)

    def _compare(self, call: CallView, tool: str, wanted: str) -> None:
        try:
            before = canonical_bytes(parse_arguments(call.raw_arguments))
        except MalformedArguments:
            before = call.raw_arguments.encode()
        if call.tool == tool and before == wanted.encode():
            return
        number = self.recorded.index(call) + 1
        self.broken = NonDeterministic(
            f"step {number} is recorded as {call.tool} {call.raw_arguments} but is now {tool} {wanted}: "
            "the code between the steps must give the same result every time; nothing was executed"
        )
        _here().moved.set()
        raise Suspended

    def _at_once(self, call: CallView) -> bool:
        """Whether the answer came before anything ran in parallel."""
        if call.place is not None or call.answer is None:
            return False
        latest = self._latest(call).answered_at
        return self._branched_at is None or latest is None or latest < self._branched_at

    def _give_next(self) -> bool:
        """Keep the order in which answers came. False: no more."""
        due = [
            (latest.answered_at, latest.turn, latest.index, number)
            for number, entry in enumerate(self.entries)
            if not entry.heard.done() and entry.call is not None and entry.call.answer is not None
            for latest in [self._latest(entry.call)]
            if latest.answered_at is not None
        ]
        if not due:
            return False
        entry = self.entries[min(due)[-1]]
        if entry.call is not None:
            entry.heard.set_result(self._latest(entry.call))
        return True

    def _count_waiting(self) -> int:
        return sum(entry.waiting for entry in self.entries if not entry.heard.done())

    async def _answered_call(self, entry: Entry) -> CallView:
        self._check_open()
        if entry.heard.done():
            return entry.heard.result()
        entry.waiting += 1
        entry.dropped = False
        _here().moved.set()
        try:
            return await asyncio.shield(entry.heard)
        except asyncio.CancelledError:
            entry.dropped = entry.waiting == 1 and not self.over
            raise
        finally:
            entry.waiting -= 1

    def _latest(self, call: CallView) -> CallView:
        """The call or its repetition, answered when the function went on."""
        if call.id not in self.repeats:
            return call
        following = self._following(call)
        while (again := self.repeats.get(call.id)) is not None and _is_answered(again, following):
            call = again
        return call

    def _following(self, call: CallView) -> CallView | None:
        if call.place is None and (number := self.recorded.index(call) + 1) < len(self._one_by_one):
            return self.recorded[number]
        if (at := call.answered_at) is None:
            return None
        later = [each for each in self.recorded if each.created_at is not None and each.created_at > at]
        return min(later, key=_made_at, default=None)


def _here() -> Branch:
    """The step's task. Raises RuntimeError in the author's own threads and event loops."""
    here = branch.get(None)
    if here is None or here.tasks[0].get_loop() is not asyncio.get_running_loop():
        raise RuntimeError(
            "await step, ask and sleep in the function's own event loop, not in another thread's"
        )
    return here


def _made_at(call: CallView) -> tuple[datetime | None, int, int]:
    return (call.created_at, call.turn, call.index)


def _is_answered(call: CallView, following: CallView | None) -> bool:
    if call.answer is None or following is None:
        return call.answer is not None
    if call.answered_at is None or following.created_at is None:
        return False
    return call.answered_at < following.created_at


def _plain(tool: str, arguments: Mapping[str, Any]) -> str:
    try:
        return canonical_bytes(written(*written_by_type(dict(arguments)), numbers=False)).decode()
    except (MalformedArguments, ValueError) as error:
        raise StepFailed(f"{tool}: its arguments are not JSON: {error}") from None
