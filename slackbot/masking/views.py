"""Copies of views, runs and lines in which no secret can be read.

Long work runs in threads, within a bounded time: no click waits for it. What was not searched in time is masked whole,
and says so; a page of short texts never is. People go before cards, cards before API keys, which take turns.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

from agent.domain.checkpoints import redacted
from agent.domain.free_text import free_texts
from agent.domain.masked_action import masked_action
from agent.domain.repetitions import named_in
from agent.domain.request_list import HistoryLine, RequestLine
from agent.domain.request_view import Change, RequestView, VoteView
from agent.domain.run import RunValues, RunView
from signoff.description import shown
from signoff.json_paths import steps_of
from signoff.masks import BY_POLICY, Find, RedactedValue, is_unseen, mask, redact_by_name, redact_value
from signoff.values import Action
from slackbot.masking.fair_threads import CARDS, FairThreads
from slackbot.masking.secret_finder import BUDGET, FEW, SURE, SecretFinder, everything

T = TypeVar("T")
Line = TypeVar("Line", bound=RequestLine)
Hidden = tuple[tuple[str, str], ...]
"""Values hidden by their keys or a checkpoint's `redact`, each with its kind: true secrets, keep them in memory."""

_GRACE = 0.25
"""Seconds beyond the budget that people wait for a thread."""

_PATIENCE = 5.0
"""Seconds beyond the budget that a sender waits for its turn."""

_KEPT = 128
_SMALL = 20_000
_made: OrderedDict[UUID, tuple[RequestView, RequestView]] = OrderedDict()
"""The last views with their masked copies, up to 20,000 bytes of action each."""

_SMALL_TEXT = 2000
"""Characters that are searched at once: a thread would take longer."""

_DESCRIBING = frozenset(
    {"decided", "grant_used", "missing_reviewers", "pending", "uncounted_reviewers", "voted"}
)
"""Lines whose text is a description."""

_threads = FairThreads("secrets")
_late = ThreadPoolExecutor(max_workers=1, thread_name_prefix="masks")
_sender: ContextVar[str | None] = ContextVar("sender", default=None)


@contextmanager
def work_for(sender: str) -> Iterator[None]:
    """Masking in this block takes its turn among senders."""
    token = _sender.set(sender)
    try:
        yield
    finally:
        _sender.reset(token)


async def off_the_loop(
    work: Callable[[Find], T], hidden: Hidden | Callable[[], Hidden] = (), *, budget: float = BUDGET
) -> T:
    """``work`` gets a finder in a thread; if none is free in time, one that masks everything."""
    sender = _sender.get()
    # A card has twice the budget, in processor time: a late search would only be repeated.
    clock, seconds = (time.thread_time, 2 * budget) if sender == CARDS else (time.monotonic, budget)

    def look() -> T:
        known = hidden() if callable(hidden) else hidden
        return work(SecretFinder(known, budget=seconds, clock=clock, sure=SURE))

    future = _threads.submit(look, sender)
    try:
        async with asyncio.timeout(budget + (_GRACE if sender is None else _PATIENCE)):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if future.done() and not future.cancelled():  # our loop was late
            return future.result()
        find = everything if callable(hidden) else SecretFinder(hidden, budget=0.0, sure=SURE)
        return await asyncio.get_running_loop().run_in_executor(_late, work, find)


async def clean_view(view: RequestView) -> RequestView:
    """The result has a `MaskedAction` if something is hidden."""
    earlier = _made.get(view.id)
    if earlier is not None and (earlier[0] is view or earlier[0] == view):
        return earlier[1]
    began = time.monotonic()
    if _is_small(view) and len(hidden := hidden_in(view)) <= FEW:
        clean = _view(view, SecretFinder(hidden, sure=SURE))
    else:
        clean = await off_the_loop(lambda find: _view(view, find), lambda: hidden_in(view))
    in_time = time.monotonic() - began < BUDGET / 2  # else parts may be masked only for lack of time
    if in_time and len(view.action.canonical) <= _SMALL:
        _made[view.id] = (view, clean)
        _made.move_to_end(view.id)
        while len(_made) > _KEPT:
            _made.popitem(last=False)
    return clean


async def clean_run(run: RunView, hidden: Hidden = ()) -> RunView:
    """Return a run with its secrets masked, and with them the values in `hidden`."""
    return (await clean_runs([run], hidden))[0]


async def clean_runs(
    runs: Sequence[RunView], hidden: Hidden = (), values: Mapping[UUID, RunValues] | None = None
) -> list[RunView]:
    """`values` (`views.values_of`): what each run's calls hide is hidden in its own texts, too."""
    known = values or {}
    # Collecting what calls hide takes long: nobody does it late.
    asked = (lambda: hidden) if known else hidden
    return await off_the_loop(
        lambda find: [replace(run, **_written(run, _for(run, known, find))) for run in runs], asked
    )


async def clean_lines(lines: Sequence[Line], hidden: Mapping[UUID, Hidden] | None = None) -> list[Line]:
    """Mask tokens, and what ``hidden`` has for each line (`hidden_values`).

    A stored description has nothing that `redact` means; what people wrote may.
    """
    known = hidden or {}
    if sum(len(text or "") for line in lines for text in _texts(line).values()) <= _SMALL_TEXT and not known:
        find = SecretFinder(sure=SURE)
        return [_line(line, find) for line in lines]
    return await off_the_loop(
        lambda find: [
            _line(line, find.also(known.get(line.id, ())) if isinstance(find, SecretFinder) else find)
            for line in lines
        ]
    )


async def clean_descriptions(texts: Sequence[str]) -> list[str]:
    """Stored descriptions as they are shown: masked, then cut."""
    return await off_the_loop(lambda find: [shown(text, find) for text in texts])


async def clean_bodies(bodies: Sequence[Mapping[str, Any]], hidden: Hidden = ()) -> list[dict[str, Any]]:
    """Bodies of messages; some quote a description."""
    return await off_the_loop(lambda find: [_body(body, find) for body in bodies], hidden)


async def clean_description(
    text: str, action: Action, facts: Mapping[str, Any] | None, redact: Sequence[str]
) -> str:
    """Mask in an action's description the values that its arguments or facts hide by key or policy."""

    def hidden() -> Hidden:
        values = (("args", action.arguments), ("facts", facts))
        found = [pair for root, value in values for pair in redact_by_name(value, redact, root).hidden]
        return tuple(dict.fromkeys(found))

    if len(action.canonical) <= _SMALL and not hidden():
        return text
    return await off_the_loop(lambda find: mask(text, find(text)), hidden)


async def clean_value(value: T, hidden: Hidden = (), redact: Sequence[str] = ()) -> T:
    """Return a JSON value with its secrets masked: by pattern, by key, by `redact`, and those in `hidden`."""
    if len(hidden) <= FEW and _is_short([value]):
        found: T = redact_value(value, find=SecretFinder(hidden, sure=SURE), redact=redact).value
        return found
    return await off_the_loop(lambda find: redact_value(value, find=find, redact=redact).value, hidden)


async def is_scanned(
    arguments: Mapping[str, Any], facts: Mapping[str, Any] | None, redact: Sequence[str]
) -> bool:
    """Whether the check for secrets was complete and in time."""

    def look(find: Find) -> bool:
        shown = redact_value(arguments, find=find, redact=redact)
        return not is_unseen(shown) and not is_unseen(
            redact_value(facts, find=find, redact=redact, root="facts")
        )

    return await off_the_loop(look)


async def clean_text(text: str, hidden: Hidden = ()) -> str:
    """Return a text with its tokens masked, and with them the values in `hidden`."""
    return await off_the_loop(lambda find: mask(text, find(text)), hidden)


def hidden_in(view: RequestView) -> Hidden:
    """Values that only their keys, or the checkpoint's `redact`, make secret."""
    found: list[tuple[str, str]] = []
    for root, value in (
        ("args", _arguments(view)),
        ("facts", view.facts),
        ("facts", view.previous_facts),
        ("args", view.context),
    ):
        found += redact_by_name(value, view.rule.redact, root).hidden
    if view.rule.redact and isinstance(task := view.context.get("task"), str):
        found += named_in(task, view.rule.redact)
    for change in view.changes:
        for value in (change.before, change.after):
            found += _changed(change.path, value, view, _nothing).hidden
    return tuple(dict.fromkeys(found))


def _arguments(view: RequestView) -> Mapping[str, Any]:
    """Without a form that people fill in: the name of a field hides what they enter, and not what they are asked."""
    arguments = view.action.arguments
    return (
        {name: arguments[name] for name in arguments if name != "answer"} if view.answer_form else arguments
    )


async def hidden_values(view: RequestView) -> Hidden:
    """`hidden_in`, in a thread where that takes long."""
    return hidden_in(view) if _is_small(view) else await off_the_loop(lambda _: hidden_in(view))


def hidden_in_run(values: RunValues | None) -> Hidden:
    """Return the values that a run's calls hide by key or policy, each with its kind; empty for None."""
    if values is None:
        return ()
    # A call is made before its own checkpoint is known.
    redact = (*values.redact, *(redacted(values.policy) if values.policy else ()))
    found: list[tuple[str, str]] = []
    for root, encoded in (("args", values.arguments), ("facts", values.facts)):
        for each in encoded:
            found += redact_by_name(_parsed(each), redact, root).hidden
    return tuple(dict.fromkeys([*found, *_hidden_in_task(values, redact)]))


def _hidden_in_task(values: RunValues, redact: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What the task itself names; all of it until the model's answer shows which words are arguments."""
    if redact and values.task:
        yield from ([(values.task, BY_POLICY)] if values.unread else named_in(values.task, redact))


def _parsed(encoded: str | bytes) -> Any:
    """What is not JSON has no keys."""
    try:
        return json.loads(encoded)
    except (ValueError, RecursionError):
        return None


def _for(run: RunView, values: Mapping[UUID, RunValues], find: Find) -> Find:
    mine = values.get(run.id)
    return find.also(hidden_in_run(mine)) if mine is not None and isinstance(find, SecretFinder) else find


def _nothing(_: str) -> tuple[()]:
    return ()


def _view(view: RequestView, find: Find) -> RequestView:
    arguments = redact_value(view.action.arguments, find=find, redact=view.rule.redact)
    facts = redact_value(view.facts, find=find, redact=view.rule.redact, root="facts")
    action = masked_action(view.action, arguments, others_unseen=is_unseen(facts))
    execution, decision, earlier = view.execution, view.decision, view.rejected_before
    return replace(
        view,
        **_written(view, find),
        action=action,
        facts=facts.value,
        previous_facts=redact_value(
            view.previous_facts, find=find, redact=view.rule.redact, root="facts"
        ).value,
        description=shown(view.description, find),
        votes=tuple(_vote(vote, view, find) for vote in view.votes),
        answer_form=view.answer_form and view.answer_form.with_texts(lambda text: _text(text, find)),
        decision=replace(decision, **_written(decision, find)) if decision else None,
        execution=replace(execution, **_written(execution, find)) if execution else None,
        rejected_before=replace(earlier, **_written(earlier, find)) if earlier else None,
        link=None if view.link and find(view.link) else view.link,
        changes=tuple(_change(change, view, find) for change in view.changes),
        context=redact_value(view.context, find=find, redact=view.rule.redact).value,
    )


def _vote(vote: VoteView, view: RequestView, find: Find) -> VoteView:
    """An answer's fields are named as arguments are."""
    answer = redact_value(vote.answer, find=find, redact=view.rule.redact).value
    return replace(vote, **_written(vote, find), answer=answer)


def _is_small(view: RequestView) -> bool:
    parts: list[Any] = [view, *view.votes, view.decision, view.rejected_before, view.execution]
    texts: list[Any] = [
        *(free_texts(part) for part in parts if part is not None),
        view.action.arguments,
        view.facts,
        view.previous_facts,
        view.description,
        [vote.answer for vote in view.votes],
        view.answer_form.schema if view.answer_form else None,
        view.link,
        [[change.path, change.before, change.after] for change in view.changes],
        view.context,
    ]
    return _is_short(texts)


def _is_short(left: list[Any]) -> bool:
    """Counts no further than it has to."""
    room = _SMALL_TEXT
    while left and room >= 0:
        value = left.pop()
        room -= len(value) if isinstance(value, str | Mapping | list) else 1
        if room >= 0 and isinstance(value, Mapping):
            left += [*value, *value.values()]
        elif room >= 0 and isinstance(value, list):
            left += value
    return room >= 0


def _change(change: Change, view: RequestView, find: Find) -> Change:
    before, after = (
        _changed(change.path, value, view, find).value for value in (change.before, change.after)
    )
    return Change(_text(change.path, find), before, after)


def _changed(path: str, value: Any, view: RequestView, find: Find) -> RedactedValue:
    """At its own path: the keys around a value may make it a secret."""
    return redact_value(value, find=find, redact=view.rule.redact, steps=tuple(steps_of(path)))


def _line(line: Line, find: Find) -> Line:
    clean = _written(line, find) | {"description": shown(line.description, find)}
    if isinstance(line, HistoryLine) and line.answer is not None:
        clean["answer"] = redact_value(line.answer, find=find).value
    return line if clean == _texts(line) else replace(line, **clean)


def _body(body: Mapping[str, Any], find: Find) -> dict[str, Any]:
    if not isinstance(body.get("text"), str) or body.get("line") not in _DESCRIBING:
        return dict(redact_value(body, find=find).value)
    rest = {name: value for name, value in body.items() if name != "text"}
    return {**redact_value(rest, find=find).value, "text": shown(body["text"], find)}


def _texts(line: RequestLine) -> dict[str, str | None]:
    return free_texts(line) | {"description": line.description}


def _text(text: str, find: Find) -> str:
    return mask(text, find(text))


def _written(view: Any, find: Find) -> dict[str, Any]:
    """What others wrote in a view, masked."""
    return {name: text and _text(text, find) for name, text in free_texts(view).items()}
