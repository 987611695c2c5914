"""OpenTelemetry traces, enabled by its standard variables.

Spans of runs, requests and external executions are made from the database after they end. A failure here costs only
spans.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

import structlog

from agent import tracing
from agent.database.background import start_task
from agent.database.errors import DatabaseError
from agent.database.failure_log import log_failure
from agent.database.pools import Database
from agent.domain.request import ExecutionStatus
from agent.domain.run import RunStatus
from agent.store import views
from agent.tracing import EndedSpan

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger(__name__)

LOOK = 0.5
"""Seconds between polls for ended work."""

TRIES = 6
"""Polls after which work that has not ended in the database counts as rolled back."""

_OVER = (RunStatus.COMPLETED, RunStatus.DENIED, RunStatus.FAILED, RunStatus.CANCELLED)


class Ids:
    """An id generator for OpenTelemetry that uses the ids which a span wants, and else random ones."""

    def generate_span_id(self) -> int:
        return tracing.wanted_span.get() or random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return tracing.wanted_trace.get() or random.getrandbits(128) or 1

    def is_trace_id_random(self) -> bool:
        """A uuid7 ends in 62 random bits; 56 are required (W3C Trace Context, level 2)."""
        return True


def is_wanted(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenTelemetry's variables ask for traces: an OTLP endpoint is set, and nothing turns it off."""
    off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = environment.get("OTEL_TRACES_EXPORTER") or "otlp"  # the specification: empty is as if unset
    none = "otlp" not in (each.strip().lower() for each in exporters.split(","))
    named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return not off and not none and any(environment.get(name) for name in named)


def exporting(worker: str) -> TracerProvider | None:
    """The OTLP exporter over HTTP; ``None``, with a log line, without the extra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        words = (
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but traces need more; in a checkout: pip install '.[otel]'"
        )
        log.warning(words, action="tracing.not_installed")
        return None
    provider = new_provider(worker)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def new_provider(worker: str) -> TracerProvider:
    """A provider whose spans have our ids; without an exporter."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.id_generator import IdGenerator  # noqa: PLC0415

    ours = type("OurIds", (Ids, IdGenerator), {})
    name = os.environ.get("OTEL_SERVICE_NAME") or "signoff"
    resource = Resource.create({"service.name": name, "service.instance.id": worker})
    return TracerProvider(resource=resource, id_generator=ours())


class Telemetry:
    """A sender of traces: makes the spans of ended work from the database, twice a second."""

    def __init__(self, db: Database, provider: TracerProvider) -> None:
        self._db = db
        self._provider = provider
        self._noted: deque[EndedSpan] = tracing.subscribe(provider)
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, db: Database, worker: str) -> Self | None:
        provider = exporting(worker) if is_wanted() else None
        return None if provider is None else cls(db, provider)

    def start(self) -> None:
        self._task = start_task(self._follow(), "telemetry")

    async def stop(self) -> None:
        """Send what is left, within five seconds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(5.0):
                await self.look()
                tracing.unsubscribe(self._provider)
                await asyncio.to_thread(self._provider.shutdown)
        except Exception:
            log.exception("the last spans were not sent", action="tracing.failed")
        finally:
            tracing.unsubscribe(self._provider)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            try:
                await self.look()
            except DatabaseError as error:
                log_failure("spans of ended work were not created", error, action="tracing.failed")
            except Exception:
                log.exception("spans of ended work were not created", action="tracing.failed")

    async def look(self) -> None:
        for _ in range(len(self._noted)):
            each = self._noted.popleft()
            tell = {"run": self._run, "request": self._request, "attempt": self._attempt}[each.kind]
            if not await tell(each.id) and each.tries + 1 < TRIES:
                self._noted.append(replace(each, tries=each.tries + 1))

    async def _run(self, run_id: UUID) -> bool:
        run = await self._db.read(views.run_view, run_id)
        if run is None or run.status not in _OVER:
            return False
        about = {"run_id": str(run.id), "agent": run.agent, "status": run.status.value}
        numbers = {"steps": run.steps, "tokens": run.tokens}
        span = self._span(f"run {run.agent}", run.root_id, run.parent_run_id, run.id, {**about, **numbers})
        if run.status is RunStatus.FAILED:
            span.failed("failed")
        span.end(int(run.updated_at.timestamp() * 1e9))
        return True

    async def _request(self, request_id: UUID) -> bool:
        async with self._db.connection() as connection:
            request = await views.request_view(connection, request_id)
            run_id = request.run_id if request else None
            root = await views.root_of_run(connection, run_id) if run_id else request_id
        if request is None or request.decision is None:
            return False
        about = {
            "request_id": str(request.id),
            "agent": request.agent,
            "tool": request.action.tool,
            "checkpoint": request.checkpoint_id,
            "risk": request.risk.value,
            "revision": request.revision,
            "status": request.status.word,
        }
        at = int(request.decision.at.timestamp() * 1e9)
        span = self._span(f"request {request.action.tool}", root, run_id, request.id, about)
        outcome = {name: about[name] for name in ("request_id", "status", "revision")}
        facts = {**outcome, "votes": len(request.votes), "approvals_required": request.approvals_required}
        tracing.open_span("decision", root, request.id, facts, at_ns=at).end(at)
        span.end(at)
        return True

    async def _attempt(self, request_id: UUID) -> bool:
        request = await self._db.read(views.request_view, request_id)
        attempt = request.execution if request else None
        if request is None or attempt is None or attempt.finished_at is None:
            return False
        about = {
            "request_id": str(request.id),
            "execution_id": str(attempt.id),
            "agent": request.agent,
            "tool": request.action.tool,
            "attempt": attempt.attempt,
            "status": attempt.status.value,
        }
        name, root = f"tool {request.action.tool}", request.run_id or request.id
        span = self._span(name, root, request.id, attempt.id, about)
        if attempt.status is not ExecutionStatus.SUCCEEDED:
            span.failed(attempt.status.value)
        span.end(int(attempt.finished_at.timestamp() * 1e9))
        return True

    @staticmethod
    def _span(name: str, root: UUID, parent: UUID | None, own: UUID, about: dict[str, Any]) -> tracing.Span:
        return tracing.open_span(name, root, parent, about, own=own, at_ns=tracing.began_ns(own))
