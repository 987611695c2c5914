"""Traces: a run is one trace, from its start through every wait and every process to its end, without its contents."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext
from structlog.testing import capture_logs

from agent import tracing
from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from agent.store.ids import new_id
from agent.usecases import api_keys
from signoff.values import Person
from slackbot.service import telemetry
from tests.integration.handing_down import orders
from tests.integration.service.conftest import House, until
from tests.integration.web.receiver import a_receiver

TASK = "please delete_records table_name=users count=50"


class Kept(SpanExporter):
    """A receiver that keeps everything, whichever process's worth of service sent it."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


def agent() -> Agent:
    @tool
    def delete_records(table_name: str, count: int) -> str:
        """Delete records from a table."""
        return f"Deleted {count} records from {table_name}"

    return Agent("data", "You manage data.", [delete_records])


@pytest.fixture
def receive(monkeypatch: pytest.MonkeyPatch) -> Callable[[SpanExporter], None]:
    """Let the spans of services that are started from now on go there."""

    def receive(exporter: SpanExporter) -> None:
        def exporting(worker: str) -> TracerProvider:
            provider = telemetry.new_provider(worker)
            provider.add_span_processor(SimpleSpanProcessor(exporter))
            return provider

        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
        monkeypatch.setattr(telemetry, "exporting", exporting)

    return receive


def about(span: ReadableSpan, name: str) -> Any:
    assert span.attributes is not None
    return span.attributes[f"signoff.{name}"]


async def test_a_run_is_one_trace_across_its_wait(
    http_house: House, receive: Callable[[SpanExporter], None]
) -> None:
    """Run, approval, another process, execution: one trace with the run's id, the request below the run, decision and
    tool below the request, each with its own times; no argument, text or person in any attribute.
    """
    house, spans = http_house, Kept()
    receive(spans)
    first = await house.open([agent()])
    with capture_logs() as logs:
        await house.ask("U0ADA", TASK)
        card = await house.card()
        await first.stop()
        assert spans.named("request delete_records") == []
        await house.open([agent()])
        answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
        assert answer.error is None
        await house.shows("SELECT status::text FROM agent_run", "completed")

        async def complete() -> list[ReadableSpan]:
            return spans.named("run data") and spans.named("request delete_records")

        await until(complete)
    [run], [request] = spans.named("run data"), spans.named("request delete_records")
    [decision], [executed] = spans.named("decision"), spans.named("tool delete_records")
    models = spans.named("model")
    [run_id] = await house.column("SELECT id FROM agent_run")
    everything = spans.spans
    assert {span.context.trace_id for span in everything if span.context} == {run_id.int}
    assert run.parent is None
    below = {span.name: span.parent and span.parent.span_id for span in everything}
    assert run.context is not None
    assert request.context is not None
    assert below == {
        "run data": None,
        "model": run.context.span_id,
        "request delete_records": run.context.span_id,
        "decision": request.context.span_id,
        "tool delete_records": request.context.span_id,
    }
    assert len(models) == 2
    assert (about(run, "status"), about(decision, "status"), about(executed, "status")) == (
        "completed",
        "approved",
        "succeeded",
    )
    assert request.start_time is not None
    assert request.end_time is not None
    assert executed.start_time is not None
    assert (run.start_time or 0) <= request.start_time < request.end_time <= executed.start_time
    assert about(executed, "request_id") == about(request, "request_id")
    attributes = str([dict(span.attributes or {}) for span in everything])
    assert not [word for word in ("users", "Deleted", "U0GRACE", "U0ADA", "please") if word in attributes]
    keys = {line.get("action") for line in logs}
    assert keys >= {
        "run.started",
        "request.opened",
        "request.approved",
        "execution.started",
        "execution.succeeded",
        "delivery.sent",
        "run.turn",
        "run.ended",
    }


async def test_what_is_handed_down_and_what_is_done_outside_stay_in_their_trace(
    http_house: House, receive: Callable[[SpanExporter], None]
) -> None:
    """The runs of a delegated task are one trace, and so are the steps of a program's request."""
    house, spans = http_house, Kept()
    receive(spans)
    service = await house.open([orders])
    await house.ask("U0ADA", "order 7", agent="orders")
    answer = await house.slack.person("U0GRACE").click(await house.card(), "signoff:approve")
    assert answer.error is None

    async def handed_down() -> bool:
        return bool(spans.named("run orders") and spans.named("run refunds") and spans.named("request ask"))

    await until(handed_down)
    top, below = (context_of(spans, name) for name in ("run orders", "run refunds"))
    assert {span.context.trace_id for span in spans.spans if span.context} == {top.trace_id}
    assert parent_of(spans, "run refunds") == top.span_id
    assert parent_of(spans, "request ask") == below.span_id

    spans.spans.clear()
    asking, deciding = [
        await api_keys.create(house.db, name, [scope], by="test", owner=Person("T0SANDBOX", owner))
        for name, scope, owner in (("crm", Scope.REQUEST, "U0ADA"), ("grace", Scope.DECIDE, "U0GRACE"))
    ]
    body = {"request_id": "r-1", "action_description": "x", "action": "delete_records", "arguments": {"n": 1}}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.port}") as client:

        async def post(key: str, path: str, body: dict[str, Any]) -> Any:
            response = await client.post(path, json=body, headers={"Authorization": f"Bearer {key}"})
            assert response.is_success, response.text
            return response.json()

        await post(asking, "/pending", body)
        await post(deciding, "/approve/r-1", {"decision": "approved"})
        claimed = await post(asking, "/pending/r-1/claim", {})
        await post(asking, "/pending/r-1/result", {"token": claimed["token"], "status": "succeeded"})

    async def reported() -> bool:
        return bool(spans.named("tool delete_records") and spans.named("request delete_records"))

    await until(reported)
    [request] = spans.named("request delete_records")
    assert request.context is not None
    assert {span.context.trace_id for span in spans.spans if span.context} == {request.context.trace_id}
    for name in ("decision", "claim", "report", "tool delete_records"):
        assert parent_of(spans, name) == request.context.span_id
    [done] = spans.named("tool delete_records")
    assert (about(done, "status"), about(done, "attempt")) == ("succeeded", 1)


def context_of(spans: Kept, name: str) -> SpanContext:
    [span] = spans.named(name)
    assert span.context is not None
    return span.context


def parent_of(spans: Kept, name: str) -> int | None:
    [span] = spans.named(name)
    return span.parent.span_id if span.parent else None


class Broken(SpanExporter):
    """A receiver that raises."""

    def export(self, spans: Any) -> SpanExportResult:
        raise RuntimeError("broken")


async def test_a_fault_in_telemetry_disturbs_nothing(
    http_house: House, receive: Callable[[SpanExporter], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receiver raises, and so does whatever makes spans: the run completes as ever."""
    house = http_house
    receive(Broken())
    await house.open([agent()])

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no spans today")

    monkeypatch.setattr("opentelemetry.sdk.trace.Tracer.start_span", broken)
    await house.ask("U0ADA", TASK)
    answer = await house.slack.person("U0GRACE").click(await house.card(), "signoff:approve")
    assert answer.error is None
    await house.shows("SELECT status::text FROM agent_run", "completed")


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": ""}, True),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "console, otlp"},
            True,
        ),
    ],
)
def test_the_standard_variables_turn_it_on(environment: dict[str, str], wanted: bool) -> None:
    """Traces are sent to the address in OpenTelemetry's own variables, and nowhere else."""
    assert telemetry.is_wanted(environment) is wanted


async def test_spans_arrive_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment names is sent to: OTLP over HTTP, with the run's id as the trace's."""
    run = new_id()
    async with a_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", receiver.url)
        assert telemetry.is_wanted()
        provider = telemetry.exporting("a worker")
        assert provider is not None
        tracing.subscribe(provider)
        tracing.open_span("run data", run, None, {"status": "completed"}, own=run).end()
        tracing.unsubscribe(provider)
        await asyncio.to_thread(provider.shutdown)
        [posted] = receiver.received
    assert posted.headers["Content-Type"] == "application/x-protobuf"
    content = (
        gzip.decompress(posted.body) if posted.headers.get("Content-Encoding") == "gzip" else posted.body
    )
    assert run.bytes in content
    assert run.bytes[8:] in content.replace(run.bytes, b"")
