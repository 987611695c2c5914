"""OpenTelemetry traces: one per run, across all waits and processes, and one per program's request.

Nothing is stored: a run's id (uuid7) is its trace's id, its end the span's, and its first half gives the start time.
Endings are noted here; the reader of `subscribe` reports them after COMMIT.

Without a provider this does nothing. Attributes are ids, names, states and numbers, never arguments, texts or people.
Nothing here raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import structlog
from opentelemetry import context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, Status, StatusCode, TraceFlags, TracerProvider

log = structlog.get_logger(__name__)

MAX_NOTED = 10_000
"""More endings push out the oldest."""

Kind = Literal["run", "request", "attempt"]
Attributes = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """An attempt has its request's id."""

    kind: Kind
    id: UUID
    tries: int = 0


@dataclass
class _Following:
    """State that is empty unless tracing is on."""

    provider: TracerProvider | None = None
    noted: deque[EndedSpan] | None = None


_following = _Following()
wanted_span: ContextVar[int | None] = ContextVar("wanted_span", default=None)
"""The next span's id: a run's or request's, known to other processes."""

wanted_trace: ContextVar[int | None] = ContextVar("wanted_trace", default=None)


def subscribe(provider: TracerProvider) -> deque[EndedSpan]:
    """Make spans with this provider; returns the queue of endings, which the caller empties."""
    noted: deque[EndedSpan] = deque(maxlen=MAX_NOTED)
    _following.provider, _following.noted = provider, noted
    return noted


def unsubscribe(provider: TracerProvider) -> None:
    """Switch tracing off, unless another provider has been subscribed since."""
    if _following.provider is provider:
        _following.provider = _following.noted = None


def note_end(kind: Kind, which: UUID) -> None:
    """Call it after COMMIT. ``attempt``: the latest at this request."""
    if _following.noted is not None:
        _following.noted.append(EndedSpan(kind, which))


def span_id(which: UUID) -> int:
    """The last 64 bits of the id, 62 of them random (RFC 9562, 5.7)."""
    return which.int & (2**64 - 1)


def began_ns(which: UUID) -> int:
    """The creation time of a uuid7, in ns since 1970."""
    return (which.int >> 80) * 1_000_000


class Span:
    """A running operation. None attributes are left out."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: str | float | bool | None) -> None:
        with suppress(Exception):
            self._span.set_attributes(_known(attributes))

    def failed(self, kind: str) -> None:
        with suppress(Exception):
            self._span.set_status(Status(StatusCode.ERROR, kind))

    def end(self, at_ns: int | None = None) -> None:
        with suppress(Exception):
            self._span.end(at_ns)


@contextmanager
def span_within(
    name: str,
    root: UUID,
    parent: UUID,
    attributes: Attributes,
    *,
    kind: trace.SpanKind = trace.SpanKind.INTERNAL,
) -> Iterator[Span]:
    """A span below a run's or request's; ``root`` is the root run. Of an error only the type is recorded."""
    span = open_span(name, root, parent, attributes, kind=kind)
    token = None
    with suppress(Exception):
        token = context.attach(trace.set_span_in_context(span._span))  # noqa: SLF001 - ours
    try:
        yield span
    except BaseException as error:
        span.failed(type(error).__name__)
        raise
    finally:
        if token is not None:
            with suppress(Exception):
                context.detach(token)
        span.end()


def open_span(
    name: str,
    root: UUID,
    parent: UUID | None,
    attributes: Attributes,
    *,
    own: UUID | None = None,
    at_ns: int | None = None,
    kind: trace.SpanKind = trace.SpanKind.INTERNAL,
) -> Span:
    """A span in ``root``'s trace, below ``parent``'s; ``own`` determines its id. The caller ends it."""
    if _following.provider is None:
        return Span(trace.INVALID_SPAN)
    span = wanted_span.set(span_id(own) if own else None)
    whole = wanted_trace.set(root.int)
    try:
        above = context.Context() if parent is None else _below(root, parent)
        tracer = _following.provider.get_tracer("signoff")
        return Span(tracer.start_span(name, above, kind, _known(attributes), start_time=at_ns))
    except Exception:
        log.exception("span could not be created", action="tracing.failed")
        return Span(trace.INVALID_SPAN)
    finally:
        wanted_span.reset(span)
        wanted_trace.reset(whole)


def _below(root: UUID, parent: UUID) -> context.Context:
    above = SpanContext(root.int, span_id(parent), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(above), context.Context())


def _known(attributes: Attributes) -> dict[str, str | int | float | bool]:
    return {f"signoff.{name}": value for name, value in attributes.items() if value is not None}
