"""What a function agent calls. Each operation uses the journal of the function's run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, Protocol, overload
from uuid import UUID

from pydantic import BaseModel
from typing_extensions import ParamSpec, TypeVar

from agent.domain import checkpoint_fields
from agent.domain.answers import EVERYBODY, AnswerForm
from agent.runtime.agents import Agent
from agent.runtime.step_tools import Doing
from agent.runtime.tool import Tool, ToolContext
from signoff.durations import Duration, seconds_of
from signoff.errors import Cause, CollaborationError, MalformedArguments, SignoffError, UnusableForm
from signoff.json_form import instance_of
from signoff.values import Person, Risk

P = ParamSpec("P")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True, default=Any)
V_co = TypeVar("V_co", covariant=True, default=Any)
M = TypeVar("M", bound=BaseModel)
A_co = TypeVar("A_co", covariant=True, default=Mapping[str, Any] | None)


class StepFailed(SignoffError):
    """A step raised an error, or did nothing; the text says why. Every replay raises the same error."""


class NonDeterministic(SignoffError):
    """The function's record no longer matches."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[A_co]):
    """People's decision. ``cause``: approved, rejected, expired, withdrawn or denied (by policy).

    ``arguments``: those of the question; approved ones may be edited. None only if the question had none.
    """

    approved: bool
    cause: str
    arguments: A_co
    reason: str | None = None
    reviewer: Person | None = None
    request_id: UUID | None = None
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.approved

    def require(self) -> None:
        """Continue only with an approval. Raises CollaborationError, which ends the run as denied, with its cause."""
        if not self.approved:
            raise _refused(self.cause, self.request_id, self.reason, self.reviewer)


@dataclass(frozen=True, slots=True)
class Answer(Generic[V_co]):
    """What people answered. ``cause``: answered, rejected, expired, withdrawn or denied (by policy).

    ``value`` is the option or own words, or what the form asked for; None without an answer, and once it is erased. It
    authorises nothing: tools that use it meet policy as always.
    """

    answered: bool
    cause: str
    value: V_co | None
    reason: str | None = None
    person: Person | None = None
    request_id: UUID | None = None

    def __bool__(self) -> bool:
        return self.answered

    def require(self) -> V_co:
        """Return the value. Raises CollaborationError, which ends the run as denied, with its cause."""
        if not self.answered or self.value is None:
            reason = self.reason or ("the answer is erased" if self.answered else None)
            raise _refused(self.cause, self.request_id, reason, self.person)
        return self.value


def _refused(
    cause: str, request_id: UUID | None, reason: str | None, person: Person | None
) -> CollaborationError:
    return CollaborationError(
        STOPS.get(cause, "rejected"),
        request_id=str(request_id or ""),
        reason=reason,
        reviewer=person.user_id if person else None,
    )


STOPS: Mapping[str, Cause] = {"expired": "expired", "withdrawn": "withdrawn"}
"""Causes for which a function stops, besides "rejected", which is a policy's no, too."""


class Journal(Protocol):
    """The record of a function agent's run, which answers its steps, questions and sleeps."""

    def begin(self, tool: str, arguments: Mapping[str, Any]) -> Any: ...

    async def outcome(self, entry: Any) -> Any: ...

    async def ask(self, arguments: Mapping[str, Any]) -> Decision: ...

    async def ask_for(self, arguments: Mapping[str, Any]) -> Answer: ...

    async def sleep(self, seconds: float) -> None: ...

    async def tell(self, status: str | None = None, label: str | None = None) -> None: ...


journal: ContextVar[Journal] = ContextVar("signoff_journal")


class Started(Generic[T_co]):
    """A step in the background. Await it for its result, any number of times, in any task of the function."""

    def __init__(self, record: Journal, entry: Any) -> None:
        self._record = record
        self._entry = entry

    def __await__(self) -> Generator[Any, None, T_co]:
        return self._record.outcome(self._entry).__await__()


# An async function is a sync one that returns a coroutine, so it comes first.
@overload
async def step(doing: Agent, /, **arguments: Any) -> str: ...
@overload
async def step(
    doing: Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, R]],
    /,
    *positional: P.args,
    **arguments: P.kwargs,
) -> R: ...
@overload
async def step(
    doing: Callable[Concatenate[ToolContext, P], R], /, *positional: P.args, **arguments: P.kwargs
) -> R: ...
@overload
async def step(
    doing: Callable[P, Coroutine[Any, Any, R]], /, *positional: P.args, **arguments: P.kwargs
) -> R: ...
@overload
async def step(doing: Callable[P, R], /, *positional: P.args, **arguments: P.kwargs) -> R: ...
async def step(doing: Doing, /, *positional: Any, **arguments: Any) -> Any:
    """Do this once and return its result, now and in every replay.

    The result is what the function's return annotation makes of its JSON; None if a person settled the step as done.
    Pass arguments by name. Checkpoints apply as to any tool call. Raises StepFailed if it raised, and
    CollaborationError if people rejected it or nobody decided in time.
    """
    if positional:
        raise TypeError("step takes keyword arguments only")
    return await _journal().outcome(_begin(doing, arguments))


@overload
async def start(doing: Agent, /, **arguments: Any) -> Started[str]: ...
@overload
async def start(
    doing: Callable[Concatenate[ToolContext, P], Coroutine[Any, Any, R]],
    /,
    *positional: P.args,
    **arguments: P.kwargs,
) -> Started[R]: ...
@overload
async def start(
    doing: Callable[Concatenate[ToolContext, P], R], /, *positional: P.args, **arguments: P.kwargs
) -> Started[R]: ...
@overload
async def start(
    doing: Callable[P, Coroutine[Any, Any, R]], /, *positional: P.args, **arguments: P.kwargs
) -> Started[R]: ...
@overload
async def start(doing: Callable[P, R], /, *positional: P.args, **arguments: P.kwargs) -> Started[R]: ...
async def start(doing: Doing, /, *positional: Any, **arguments: Any) -> Started[Any]:
    """Begin a step in the background, often another agent. Await the returned object for its result.

    Steps that nobody has awaited when the function ends are cancelled.
    """
    if positional:
        raise TypeError("start takes keyword arguments only")
    return Started(_journal(), _begin(doing, arguments))


@overload
async def ask(
    question: str,
    *,
    options: Sequence[str],
    other: bool = True,
    answerers: Sequence[str] = EVERYBODY,
    answers_required: int = 1,
    timeout: Duration | None = None,
) -> Answer[str]: ...
@overload
async def ask(
    question: str,
    *,
    form: type[M],
    answerers: Sequence[str] = EVERYBODY,
    answers_required: int = 1,
    timeout: Duration | None = None,
) -> Answer[M]: ...
@overload
async def ask(
    question: str,
    *,
    form: Mapping[str, Any],
    answerers: Sequence[str] = EVERYBODY,
    answers_required: int = 1,
    timeout: Duration | None = None,
) -> Answer[dict[str, Any]]: ...
@overload
async def ask(
    question: str, *, timeout: Duration | None = None, risk: Risk | str | None = None, arguments: None = None
) -> Decision[None]: ...
@overload
async def ask(
    question: str,
    *,
    timeout: Duration | None = None,
    risk: Risk | str | None = None,
    arguments: Mapping[str, Any],
) -> Decision[Mapping[str, Any]]: ...
@overload
async def ask(
    question: str,
    *,
    timeout: Duration | None = None,
    risk: Risk | str | None = None,
    arguments: Mapping[str, Any] | None,
) -> Decision: ...
async def ask(
    question: str,
    *,
    timeout: Duration | None = None,
    risk: Risk | str | None = None,
    arguments: Mapping[str, Any] | None = None,
    options: Sequence[str] | None = None,
    form: type[BaseModel] | Mapping[str, Any] | None = None,
    other: bool | None = None,
    answerers: Sequence[str] | None = None,
    answers_required: int | None = None,
) -> Any:
    """Ask people and wait for their decision, for days if need be: the run is parked and uses no resources.

    ``timeout`` ("24h", or seconds) defaults to the checkpoint's; an expired question is not approved. ``arguments`` are
    shown on the card; if the checkpoint allows edits, the decision has the edited ones.

    With ``options`` or a ``form`` (a pydantic model, or a JSON Schema of an object) the result is an ``Answer``: an
    option, or own words where ``other`` allows them; or the form's values. ``answerers`` may be ``requester``,
    ``reviewers``, ``channel`` and the ids of Slack users and groups; so many equal answers are required. Raises
    UnusableForm, before anybody is asked.
    """
    terms = {"other": other, "answerers": answerers, "answers_required": answers_required}
    wanted = _form(options, form, {name: each for name, each in terms.items() if each is not None})
    asked: dict[str, Any] = {"question": question}
    if wanted is not None:
        asked["answer"] = wanted.stored_form
    if arguments is not None:
        asked["arguments"] = dict(arguments)
    if risk is not None:
        asked["risk"] = Risk(risk).value
    if timeout is not None:
        asked["timeout_seconds"] = seconds_of(timeout)
    if wanted is None:
        return await _journal().ask(asked)
    answer = await _journal().ask_for(asked)
    if not isinstance(form, type) or answer.value is None:
        return answer
    try:
        return replace(answer, value=instance_of(form, answer.value))
    except MalformedArguments as error:
        raise StepFailed(f"the answer does not fit {form.__name__}: {error}") from None


def _form(
    options: Sequence[str] | None,
    form: type[BaseModel] | Mapping[str, Any] | None,
    terms: Mapping[str, Any],
) -> AnswerForm | None:
    """What a question wants besides yes or no. Raises UnusableForm."""
    if options is None and form is None:
        if terms:
            raise UnusableForm(f"`{next(iter(terms))}` needs `options` or a `form`")
        return None
    if options is not None and form is not None:
        raise UnusableForm("ask with `options` or with a `form`, not with both")
    if options is not None:
        # a text is a sequence of texts, too
        schema: Any = {"enum": options if isinstance(options, str) else list(options)}
    else:
        schema = form.model_json_schema() if isinstance(form, type) else form
    return AnswerForm.of(schema, **terms)


async def sleep(time: Duration) -> None:
    """Wait for this time ("3d", "90m", or seconds) by the database's clock. The run is parked, and survives restarts.

    Raises ValueError for a time below zero or beyond 365 days.
    """
    seconds = seconds_of(time)
    if seconds > checkpoint_fields.LONGEST.total_seconds():
        raise ValueError("sleep takes at most 365 days")
    await _journal().sleep(seconds)


async def set_status(status: str) -> None:
    """Show progress to people: one line in the run's first message, until the next call."""
    await _journal().tell(status)


async def set_label(label: str) -> None:
    """Name this run, beside its agent's name, on cards and in lists: up to 80 characters on one line."""
    await _journal().tell(label=label)


def _journal() -> Journal:
    try:
        return journal.get()
    except LookupError:
        raise RuntimeError("step, ask, sleep and set_status work inside a @function_agent only") from None


def _begin(doing: Doing, arguments: Mapping[str, Any]) -> Any:
    named = doing.name if isinstance(doing, Tool | Agent) else getattr(doing, "__name__", "")
    return _journal().begin(named, arguments)
