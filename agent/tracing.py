"""OpenTelemetry traces of a run: one trace across all waits and processes.

Nothing is stored for it: a run's id (uuid7) is its trace's id, the end of it its span's, and its first half gives the
start time. What ends in a transaction is noted here, and the reader of `subscribe` reports it after COMMIT. The trace
of a program's request is that of the request.

Without a provider all of this does nothing. Attributes are ids, names, states and numbers, never arguments, texts or
people. Nothing here raises.
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
"""Endings kept until reported; more push out the oldest."""

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
    """What has ended since the last report; empty unless tracing is on."""

    provider: TracerProvider | None = None
    noted: deque[EndedSpan] | None = None


_following = _Following()
wanted_span: ContextVar[int | None] = ContextVar("wanted_span", default=None)
"""The next span's id: a run's or request's, so that other processes know it."""

wanted_trace: ContextVar[int | None] = ContextVar("wanted_trace", default=None)


def subscribe(provider: TracerProvider) -> deque[EndedSpan]:
    """Make spans with this provider from now on; returns the queue of endings, which the caller empties."""
    noted: deque[EndedSpan] = deque(maxlen=MAX_NOTED)
    _following.provider, _following.noted = provider, noted
    return noted


def unsubscribe(provider: TracerProvider) -> None:
    if _following.provider is provider:
        _following.provider = _following.noted = None


def note_end(kind: Kind, which: UUID) -> None:
    """Note that this has ended; call it after the commit. ``attempt``: the latest one at this request."""
    if _following.noted is not None:
        _following.noted.append(EndedSpan(kind, which))


def span_id(which: UUID) -> int:
    """The span of a run or a request: the last 64 bits of its id, 62 of which are random (RFC 9562, 5.7)."""
    return which.int & (2**64 - 1)


def began_ns(which: UUID) -> int:
    """When a uuid7 was made, in ns since 1970."""
    return (which.int >> 80) * 1_000_000


class Span:
    """A running operation; attributes that are None are left out."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: str | float | bool | None) -> None:
        with suppress(Exception):
            self._span.set_attributes(_known(attributes))

    def failed(self, kind: str) -> None:
        """Mark it as failed, with this kind of error."""
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
    """A span below that of a run or request; ``root`` is the root run. Of an error only the type is recorded."""
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
    """A span in the trace of ``root``, below that of ``parent``; ``own`` determines its id. The caller ends it."""
    if _following.provider is None:
        return Span(trace.INVALID_SPAN)
    span = wanted_span.set(span_id(own) if own else None)
    whole = wanted_trace.set(root.int)
    try:
        above = context.Context() if parent is None else _below(root, parent)
        tracer = _following.provider.get_tracer("signoff")
        return Span(tracer.start_span(name, above, kind, _known(attributes), start_time=at_ns))
    except Exception:
        log.exception("a span was not made", action="tracing.failed")
        return Span(trace.INVALID_SPAN)
    finally:
        wanted_span.reset(span)
        wanted_trace.reset(whole)


def _below(root: UUID, parent: UUID) -> context.Context:
    above = SpanContext(root.int, span_id(parent), is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(above), context.Context())


def _known(attributes: Attributes) -> dict[str, str | int | float | bool]:
    return {f"signoff.{name}": value for name, value in attributes.items() if value is not None}
