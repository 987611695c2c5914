"""`/metrics` and the counts of `/readyz`: correct, bounded, and cheap whatever the tables hold."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent.database.pools import Database
from agent.domain.people import Standing
from agent.store import views
from agent.usecases import requests, webhooks
from slackbot import settings
from slackbot.settings import SettingsError
from slackbot.web.http.server import HttpServer
from slackbot.web.http.service_metrics import ProcessPart, ServiceMetrics
from tests.integration.asking import ADA, ask, write
from tests.integration.service.conftest import a_house, until
from tests.integration.test_settling import unasked_doubt
from tests.integration.web.conftest import Street
from tests.unit.test_monitoring import RULES, series

PART = ProcessPart(draining=False, slack=True, worker=True, scheduler_age=1.0)


def samples(exposition: str) -> dict[str, float]:
    """Each sample of the text format, by name and labels."""
    found = re.findall(r"^(signoff_\S+?(?:\{[^}]*\})?) (\S+)$", exposition, re.MULTILINE)
    return {name: float(value) for name, value in found}


async def test_a_scrape_tells_what_waits_and_what_was_decided(site: Street) -> None:
    """Requests waiting and decided, pending cards, HTTP answers by route: all in one scrape."""
    program, grace = await site.program(), await site.reviewer()
    before = samples((await program.get("/metrics")).text)
    for number in range(2):
        assert (await program.ask(f"r-{number}")).status_code == 201
    assert (await grace.decide("r-0")).status_code == 200
    site.service._metrics._read_at = float("-inf")
    now = samples((await program.get("/metrics")).text)
    assert now["signoff_requests_waiting"] == 1
    decided = 'signoff_decisions_total{outcome="approved"}'
    assert now[decided] - before.get(decided, 0) == 1
    assert now["signoff_web_alive"] == 1
    assert now["signoff_worker_alive"] == 1
    assert now["signoff_scheduler_age_seconds"] < 60
    assert now["signoff_database_up"] == 1
    assert now['signoff_database_connections{pool="read",state="most"}'] >= 1
    assert now['signoff_runs{status="working"}'] == 0
    assert 'signoff_queue_depth{queue="calls"}' in now
    route = 'signoff_http_requests_total{method="POST",route="/pending",status="201"}'
    assert now[route] - before.get(route, 0) == 2


async def test_a_running_service_has_every_metric_that_a_rule_names(site: Street) -> None:
    """A scrape has a sample of each; the histogram of clicks has one after the first click."""
    exposition = (await (await site.program()).get("/metrics")).text
    sampled = {re.split(r"[{ ]", line)[0] for line in exposition.splitlines() if not line.startswith("#")}
    named = {selector.name for rule in RULES for selector in series(rule["expr"])}
    assert named - sampled <= {"signoff_click_to_ack_seconds_bucket"}
    assert "# TYPE signoff_click_to_ack_seconds histogram" in exposition


async def test_what_is_left_to_people_is_counted_from_the_first_scrape_on(
    database_url: str, database: Database
) -> None:
    """A process that starts later reports a call in doubt and a notice that was given up, until they are settled."""
    run_id, claim = await unasked_doubt(database)
    await write(
        database,
        "INSERT INTO notice (id, kind, recipient, event, run_id, state) "
        "VALUES (gen_random_uuid(), 'email', 'ada@example.com', 'run.finished', :run, 'dead')",
        run=run_id,
    )
    async with a_house(database_url, "http") as house:
        service = await house.open([], SIGNOFF_ROLES="worker", SIGNOFF_HEALTH_PORT="0")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.health_port}") as client:
            first = samples((await client.get("/metrics")).text)
            assert (first["signoff_calls_in_doubt"], first["signoff_notices_dead"]) == (1, 1)
            await requests.settle(database, claim.execution_id, Standing(ADA), "done", administrator=True)
            await webhooks.drop(database)
            service._metrics._read_at = float("-inf")
            then = samples((await client.get("/metrics")).text)
    assert (then["signoff_calls_in_doubt"], then["signoff_notices_dead"]) == (0, 0)


async def test_labels_are_ours_whatever_is_called(site: Street) -> None:
    """Addresses and methods that anybody may invent do not become labels."""
    program = await site.program()
    for path in ("/no/such/place", "/pending/abc", "/pending/def"):
        await program.get(path)
    await program.request("BREW", "/pending")
    exposition = (await program.get("/metrics")).text
    assert "such" not in exposition
    assert "BREW" not in exposition
    assert "/pending/abc" not in exposition
    assert 'route="none"' in exposition


async def test_readyz_counts_what_people_are_not_told(site: Street) -> None:
    """The body lists cards that Slack does not have yet, overdue requests and dead notices."""
    program = await site.program()
    body = (await program.get("/readyz")).json()
    assert body["ready"] is True
    assert body["draining"] is False
    assert {"undelivered_cards", "oldest_undelivered_seconds", "overdue_requests", "dead_notices"} <= set(
        body
    )


async def test_figures_are_read_once_for_many_scrapes(database: Database) -> None:
    """A hundred scrapes within the pace are one look; without a database a scrape answers without its figures."""
    looks = 0

    class Watched:
        def pools(self) -> Any:
            return database.pools()

        def connection(self) -> Any:
            nonlocal looks
            looks += 1
            return database.connection()

    figures = ServiceMetrics(Watched(), lambda: PART, tuple, pace=3600)  # type: ignore[arg-type]
    for _ in range(100):
        await figures.exposition()
    assert looks == 1
    away = Database("postgresql://nobody@127.0.0.1:9/nothing")
    exposition = (await ServiceMetrics(away, lambda: PART, tuple).exposition()).decode()
    await away.close()
    assert samples(exposition)["signoff_database_up"] == 0
    assert "signoff_requests_waiting" not in samples(exposition)


async def test_many_rows_are_not_counted_one_by_one(database: Database) -> None:
    """Every statement is bounded: no table is read from end to end, and an age is found through an index."""
    await ask(database)
    await write(database, "UPDATE approval_request SET created_at = created_at - interval '1 hour'")
    async with database.connection() as connection:
        found = await views.service_counts(connection)
        assert (found.waiting, found.overdue) == (1, 0)
        assert 3500 < found.oldest_waiting < 3700
        assert found.undelivered_cards == 1
        assert found.undelivered_lines >= 1
        assert found.runs == {"pending_approval": 1}
        await connection.execute(text("SET enable_seqscan = off"))
        lines = ""
        for statement in (
            views.service_counts.__globals__[name] for name in ("_WAITS", "_DELIVERY_COUNTS", "_WORKS")
        ):
            plan = await connection.execute(text(f"EXPLAIN {statement.text}"), {"most": 10})
            lines = "\n".join(str(line) for line in plan.scalars())
            for table in ("approval_request", "delivery", "notice", "agent_run", "tool_call"):
                assert f"Seq Scan on {table}" not in lines, lines
        assert "ix_tool_call_in_doubt" in lines


async def test_a_worker_has_its_health_on_a_port_of_its_own(database_url: str) -> None:
    """A process without the role web serves `/healthz`, `/readyz` and `/metrics` there, and nothing else."""
    paths = ("/healthz", "/readyz", "/metrics", "/pending", "/inbox")
    async with a_house(database_url, "http") as house:
        service = await house.open([], SIGNOFF_ROLES="worker", SIGNOFF_HEALTH_PORT="0")
        assert service.port is None
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{service.health_port}") as client:

            async def alive() -> bool:
                return bool((await client.get("/readyz")).json()["worker"])

            await until(alive)
            answers = [await client.get(path) for path in paths]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 404, 404]
    now = samples(answers[2].text)
    assert now["signoff_worker_alive"] == 1
    assert "signoff_web_alive" not in now
    assert "signoff_scheduler_age_seconds" not in now


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SIGNOFF_PUBLIC_URL", "http://signoff.example.com", "https://"),
        ("SIGNOFF_PUBLIC_URL", "https://signoff.example.com/path", "no path"),
        ("SIGNOFF_PUBLIC_URL", "https://signoff.example.com?x=1", "no path"),
        ("SIGNOFF_PUBLIC_URL", "https://u:p@signoff.example.com", "no path"),
        ("SIGNOFF_PUBLIC_URL", "https://signoff.example.com:port", "not an address"),
        ("SIGNOFF_PUBLIC_URL", "signoff.example.com", "SIGNOFF_PUBLIC_URL"),
        ("SIGNOFF_TRUSTED_PROXIES", "everybody", "SIGNOFF_TRUSTED_PROXIES"),
    ],
)
def test_addresses_that_cannot_be_right_are_refused(name: str, value: str, words: str, tmp_path: Any) -> None:
    """A public address is https, or this machine; it has no path, query or user. A proxy is an address or a network."""
    with pytest.raises(SettingsError) as caught:
        settings.read({name: value}, tmp_path)
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_addresses_that_are_right_are_taken(tmp_path: Any) -> None:
    """The slash behind an address is left out; this machine may be reached without TLS."""
    for given, taken in [
        ("https://signoff.example.com/", "https://signoff.example.com"),
        ("https://signoff.example.com:8443", "https://signoff.example.com:8443"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ]:
        assert settings.read({"SIGNOFF_PUBLIC_URL": given}, tmp_path).public_url == taken
    proxies = settings.read({"SIGNOFF_TRUSTED_PROXIES": "10.0.0.0/8, 192.0.2.7"}, tmp_path).trusted_proxies
    assert [str(network) for network in proxies] == ["10.0.0.0/8", "192.0.2.7/32"]


@pytest.mark.parametrize(
    ("trusted", "scheme"), [("127.0.0.1/32", "https"), ("", "http"), ("10.0.0.0/8", "http")]
)
async def test_only_a_trusted_proxy_is_believed(trusted: str, scheme: str) -> None:
    """`X-Forwarded-Proto` changes what a call is taken for when it comes from a proxy that was named, else not."""

    async def tell(request: Request) -> Response:
        host = request.client.host if request.client else ""
        return PlainTextResponse(f"{request.url.scheme} {host}")

    proxies = [trusted] if trusted else []
    app = Starlette(routes=[Route("/", tell)])
    server = HttpServer(app, host="127.0.0.1", port=0, drain_seconds=1, trusted_proxies=proxies)
    await server.start()
    try:
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "203.0.113.9"}
        async with httpx.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{server.port}/", headers=headers)
    finally:
        await server.stop()
    assert answer.text == ("https 203.0.113.9" if scheme == "https" else "http 127.0.0.1")
