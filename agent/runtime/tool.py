"""`@tool`: a plain function, sync or async, that a model may propose to call."""

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Generic, overload

from typing_extensions import ParamSpec, TypeVar

from agent.domain import templates
from agent.domain.judgement import ToolTraits
from agent.domain.rules import Rule
from agent.domain.run import CallExecutor
from agent.domain.spelling import meant
from agent.runtime import stored_text
from agent.runtime.signature import Signature, ToolContext, arguments, check_subset, signature_of, summary
from signoff.backoff import Backoff
from signoff.durations import Duration, seconds_of
from signoff.errors import SignoffError
from signoff.values import Action, Risk

__all__ = ["NotDone", "Tool", "ToolContext", "tool"]

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")  # for the Chat Completions API
MAX_RETRIES = 100
LONGEST_BACKOFF = 3600.0
"""Seconds."""
DEFAULT_TIMEOUT = 60.0
"""Seconds."""


class NotDone(SignoffError):
    """Raised by a tool, or its `facts`, to say that nothing happened; the model reads the text.

    From a tool it ends the execution as failed, without doubt. From `facts` it answers the call before anybody is
    asked.
    """


Hook = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Tool(Generic[P, R]):
    """A function with what policy and runtime must know of it; made by `@tool`, callable like the function.

    - `requires_approval`, `risk`: what the tool itself demands; a checkpoint can only be stricter.
    - `read_only`: has no effect. Needs no approval if no checkpoint matches, and is never in doubt.
    - `background`: the chat goes on at once; the outcome reaches the model later.
    - `idempotent`: may be retried with the same `ctx.idempotency_key` when its worker is gone.
    - `facts`: read-only lookup; takes some of the arguments by name and returns a mapping (JSON).
    - `on_pending`, `on_refused`: hooks, called when the call waits for people and when it is refused. They take
      arguments by name and a `ToolContext`; `on_refused` also takes `cause`: "rejected", "expired", "withdrawn",
      "denied" (policy forbids it, perhaps only since people approved it, or it can no longer be done) or "edited"
      (people are now asked about other arguments: undo what `on_pending` did for these). Hooks may run twice, so make
      them idempotent.
    - `pending_text`: what the model reads while people decide; a template over `{args.…}`.
    - `timeout`: "90s", or seconds. A tool that takes longer is in doubt, since its effect may have happened.
    - `retries`: how often it is called again after raising one of `retry_on`, with the same `ctx.idempotency_key`;
      only for tools that are `idempotent` or `read_only`. The first retry comes after `backoff` seconds, each later one
      after twice as long, at most LONGEST_BACKOFF. Waiting uses no slot or thread, and survives restarts.
    - `concurrency`: how many calls of it run at the same time in a process, or with `across_processes` in the whole
      installation; other calls wait.
    - `external`: executed by another program, which claims the call and reports its outcome over HTTP; a name is that
      of the only key that may. The function is never called here: it describes the tool.
    - `version`: change it when the meaning changes; what was approved for another version is asked again.

    Async functions share one event loop, in a thread beside the service's; sync ones run in a pool of threads. An async
    function that blocks delays all other async user code of the process, but not the service.

    Raises TypeError or ValueError for an invalid definition.
    """

    function: Callable[P, R]
    _: KW_ONLY
    name: str = ""
    description: str = ""
    requires_approval: bool = False
    risk: Risk | str | None = None
    read_only: bool = False
    background: bool = False
    idempotent: bool = False
    facts: Hook | None = None
    on_pending: Hook | None = None
    on_refused: Hook | None = None
    pending_text: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    retries: int = 0
    backoff: float = 1.0
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    concurrency: int | None = None
    across_processes: bool = False
    external: bool | str = False
    version: str = "1"
    signature: Signature = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"@tool: {self.function!r} is not a function")
        name = self.name or getattr(self.function, "__name__", "")
        title = f"@tool {name}"
        descriptions = arguments(self.function)
        settled: dict[str, Any] = {
            "name": name,
            "description": self.description or summary(self.function),
            "risk": None if self.risk is None else _risk(self.risk, title),
            "signature": signature_of(self.function, title, descriptions),
        }
        for attribute, value in settled.items():
            object.__setattr__(self, attribute, value)
        self._check(title)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, for tests: without policy or record."""
        return self.function(*args, **kwargs)

    @property
    def traits(self) -> ToolTraits:
        risk = None if self.risk is None else Risk(self.risk)
        return ToolTraits(self.name, self.version, self.requires_approval, risk, self.read_only)

    @property
    def offered(self) -> dict[str, Any]:
        function: dict[str, Any] = {"name": self.name, "parameters": self.signature.schema}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}

    def seconds_to_retry(self, raised: BaseException, attempt: int) -> float | None:
        """Seconds until the next attempt (``attempt`` counts from 1); None: the error is final."""
        if attempt > self.retries or isinstance(raised, NotDone) or not isinstance(raised, self.retry_on):
            return None
        return Backoff(self.backoff, LONGEST_BACKOFF).after(attempt)

    @property
    def executor(self) -> CallExecutor:
        return CallExecutor.PROGRAM if self.external else CallExecutor.HERE

    @property
    def executor_key(self) -> str | None:
        """The only key whose program may execute it, if there is one."""
        return self.external if isinstance(self.external, str) else None

    @property
    def repeatable(self) -> bool:
        return self.idempotent or self.read_only

    def stored_result(self, value: Any) -> str:
        return stored_text.result_text(value)

    def terms(self, rule: Rule, action: Action) -> Rule:  # noqa: ARG002
        return rule

    def pending(self, arguments: Mapping[str, Any]) -> str | None:
        return None if self.pending_text is None else templates.render(self.pending_text, arguments, None)

    def _check(self, title: str) -> None:
        if not NAME.match(self.name):
            raise ValueError(f'{title}: a name has 1 to 64 letters, digits, "_" or "-"')
        if not self.version:
            raise ValueError(f"{title}: version must not be empty")
        if not self.timeout > 0:
            raise ValueError(f"{title}: timeout must be more than 0 seconds")
        self._check_retries(title)
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(f"{title}: concurrency must be at least 1")
        if self.across_processes and self.concurrency is None:
            raise ValueError(f"{title}: across_processes needs a concurrency")
        if self.read_only and (self.on_pending or self.on_refused):
            raise ValueError(f"{title}: a read-only tool has nothing to prepare or take back, so no hooks")
        if self.pending_text is not None:
            _check_template(self.pending_text, title)
        names = self.signature.names
        for part, hook, extra in (
            ("facts", self.facts, ()),
            ("on_pending", self.on_pending, ()),
            ("on_refused", self.on_refused, ("cause",)),
        ):
            if hook is not None:
                check_subset(hook, f"{title}: {part}", (*names, *extra), context=part != "facts")

    def _check_retries(self, title: str) -> None:
        if self.external and (self.retries or self.concurrency is not None):
            raise ValueError(f"{title}: retries and concurrency are for tools that run here; it is external")
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ValueError(f"{title}: retries must be 0 to {MAX_RETRIES}")
        if self.retries and not self.repeatable:
            raise ValueError(f"{title}: retries are for tools that may be repeated: add idempotent=True")
        if not 0 < self.backoff <= LONGEST_BACKOFF:
            raise ValueError(f"{title}: backoff must be more than 0 and at most {LONGEST_BACKOFF:g} seconds")
        given: object = self.retry_on
        if not isinstance(given, tuple) or not all(isinstance(each, type) for each in given):
            raise TypeError(f"{title}: retry_on must be a tuple of exception types")


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str = "",
    requires_approval: bool = False,
    risk: Risk | str | None = None,
    read_only: bool = False,
    background: bool = False,
    idempotent: bool = False,
    facts: Hook | None = None,
    on_pending: Hook | None = None,
    on_refused: Hook | None = None,
    pending_text: str | None = None,
    timeout: Duration = DEFAULT_TIMEOUT,
    retries: int = 0,
    backoff: float = 1.0,
    retry_on: tuple[type[BaseException], ...] = (Exception,),
    concurrency: int | None = None,
    across_processes: bool = False,
    external: bool | str = False,
    version: str = "1",
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a `Tool` of a function: `@tool`, or `@tool(background=True, …)`; see `Tool` for the options."""
    for given in options.keys() - _OPTIONS:
        raise TypeError(f'@tool: unknown option "{given}"{meant(given, _OPTIONS)}')
    if function is not None:
        return Tool(function)
    if "timeout" in options:
        options["timeout"] = _seconds(options["timeout"])
    return lambda decorated: Tool(decorated, **options)


_OPTIONS = {each.name for each in fields(Tool) if each.init} - {"function"}


def _seconds(timeout: Duration) -> float:
    try:
        return seconds_of(timeout)
    except ValueError as error:
        raise ValueError(f"@tool: timeout {error}") from None


def _risk(value: Risk | str, title: str) -> Risk:
    try:
        return Risk(value)
    except ValueError:
        raise ValueError(f"{title}: risk {value!r} is none of {', '.join(Risk)}") from None


def _check_template(text: str, title: str) -> None:
    try:
        templates.check(text)
    except ValueError as error:
        raise ValueError(f"{title}: pending_text: {error}") from None
