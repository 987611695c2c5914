"""Text that PostgreSQL cannot store (NUL, lone surrogates) at every HTTP route: 422 with its field, never a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from fastapi.routing import APIRoute

from agent.domain.api_keys import Scope
from agent.runtime.agents import Agent
from slackbot.web.http.api_keys import needed
from slackbot.web.http.bodies import StrictRoute
from slackbot.web.http.form_or_json import FORMS
from tests.integration.asking import column
from tests.integration.service.conftest import http_house  # noqa: F401
from tests.integration.web.conftest import GRACE, Program, Street
from tests.integration.web.mounted import application_of, mounted
from tests.integration.web.visiting import Porch, data_agent, porch  # noqa: F401

NUL, HALF = "a\x00b", "a\ud800b"


@pytest.fixture
def agents() -> list[Agent]:
    """One agent, so that the routes of agents reach the database."""
    return [data_agent()]


async def programs(site: Street) -> tuple[Program, Program]:
    """One that asks and one that may do everything else: no key may do both."""
    asker = await site.program("asker", ["request", "on_behalf"])
    return asker, await site.program("operator", ["decide", "read", "admin", "execute"], GRACE)


async def test_in_addresses_of_programs(site: Street) -> None:
    """NUL in any parameter of a path or a query is 422, and the parameter is named."""
    asker, operator = await programs(site)
    routes = [each for each in mounted(site.service) if isinstance(each.route, StrictRoute)]
    tried = set()
    for each in routes:
        scopes = needed(cast("StrictRoute", each.route).dependant).scopes
        program = asker if Scope.REQUEST in scopes else operator
        addresses = {name: each.address(**{name: "a%00b"}) for name in each.parameters}
        addresses |= {name: f"{each.address(agent_id='data')}?{name}=a%00b" for name in each.query}
        for name, address in addresses.items():
            answer = await program.request(each.method, address)
            assert answer.status_code == 422, (each, name, answer.text)
            assert answer.json()["errors"] == [{"path": name, "problem": "contains a NUL character"}]
            tried.add((each.path, name))
    assert {("/webhooks/{name}", "name"), ("/pending", "agent")} <= tried


async def test_in_addresses_of_pages(porch: Porch) -> None:  # noqa: F811
    """The same for pages and what belongs to them, for who is signed in."""
    ada = await porch.visitor("U0ADA")
    routes = [
        each
        for each in mounted(porch.service)
        if isinstance(each.route, APIRoute) and not isinstance(each.route, StrictRoute)
    ]
    tried = set()
    for each in routes:
        addresses = {name: each.address(**{name: "a%00b"}) for name in each.parameters}
        addresses |= {name: f"{each.address()}?{name}=a%00b" for name in each.query}
        for name, address in addresses.items():
            answer = await ada.browser.request(each.method, address)
            assert answer.status_code == 422, (each, name)
            assert f"{name}: contains a NUL character" in answer.text
            tried.add((each.path, name))
    assert {("/inbox/history", "at"), ("/sign-in/link/{secret}", "secret")} <= tried
    for name in ("q", "agent", "anything"):  # what a list reads by itself, and what nothing reads
        answer = await ada.browser.get(f"/inbox/history?{name}=a%00b")
        assert (answer.status_code, f"{name}: contains a NUL character" in answer.text) == (422, True)


async def test_in_headers(site: Street) -> None:
    """A header with NUL is refused: by our server before it is a call, by the application as 422."""
    asker, operator = await programs(site)
    inside = httpx.ASGITransport(application_of(site.service), raise_app_exceptions=False)
    for program, method, path in ((operator, "GET", "/events"), (asker, "POST", "/pending")):
        for name in ("Last-Event-ID", "Idempotency-Key", "X-Anything"):
            headers = {
                b"Authorization": program.headers["Authorization"].encode(),
                name.encode(): NUL.encode(),
            }
            async with httpx.AsyncClient(transport=inside, base_url=site.url) as client:
                answer = await client.request(method, path, headers=list(headers.items()))
            assert answer.status_code == 422, (name, answer.text)
            assert answer.json()["errors"][0]["path"].lower() == name.lower()
            reader, writer = await asyncio.open_connection("127.0.0.1", site.service.port)
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n".encode())
            writer.write(b"".join(key + b": " + value + b"\r\n" for key, value in headers.items()) + b"\r\n")
            assert (await reader.readline()).split()[1] == b"400"
            writer.close()


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str, str, list[str], dict[str, Any]]]:
    """Method, path, media type, fields and an example of every body that the API describes, and of the forms."""
    schemas = document["components"]["schemas"]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                found = content["schema"].get("anyOf", [content["schema"]])[0]
                schema = schemas[found["$ref"].rsplit("/", 1)[-1]] if "$ref" in found else found
                fields: dict[str, Any] = schema["properties"]
                own = {name: each["examples"][0] for name, each in fields.items() if each.get("examples")}
                example = (schema.get("examples") or [own])[0]
                kinds = (kind, *FORMS) if "{run_id}" in path or path.endswith("/runs") else (kind,)
                for each in kinds:
                    yield method, path, each, list(fields), example


async def test_in_bodies(site: Street) -> None:
    """In any field of any body, as JSON and as a form: 422 with the field, and nothing is stored."""
    asker, operator = await programs(site)
    document = (await asker.get("/openapi.json")).json()
    needs = {
        (each.method.lower(), each.path): needed(each.route.dependant).scopes
        for each in mounted(site.service)
        if isinstance(each.route, StrictRoute)
    }
    tried = set()
    for method, path, kind, fields, example in bodies(document):
        program = asker if Scope.REQUEST in needs[method, path] else operator
        address = path.replace("{agent_id}", "data").replace("{run_id}", "0" * 32) + "?wait=0"
        for field in fields:
            for text in (NUL, HALF):
                sent = _sent(kind, {**example, field: text})
                if sent is None:
                    continue
                answer = await program.request(method, address, **sent)
                assert answer.status_code == 422, (method, path, kind, field, answer.text)
                assert answer.json()["errors"][0]["path"] in (field, f"$.{field}"), answer.text
                tried.add((path, kind, field))
    form = "application/x-www-form-urlencoded"
    assert ("/agents/{agent_name}/runs", form, "session_id") in tried
    assert ("/pending", "application/json", "agent_context") in tried
    for table in ("agent_run", "approval_request", "webhook"):
        assert await column(site.db, f"SELECT count(*) FROM {table}") == [0]


def _sent(kind: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """The body in that form; ``None`` where the form has no way to say it."""
    if kind == "application/json":
        return {"content": json.dumps(body), "headers": {"Content-Type": kind}}
    texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in body.items()}
    if kind == "multipart/form-data":
        # Encodings that can say half a character are taken at their word.
        parts = "".join(
            f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
            for name, text in texts.items()
        )
        content = (parts + "--x--\r\n").encode("utf-7", "surrogatepass")
        return {"content": content, "headers": {"Content-Type": f"{kind}; boundary=x; charset=utf-7"}}
    return {"data": texts} if not any("\ud800" in text for text in texts.values()) else None


async def test_a_charset_that_decodes_nothing_is_said(site: Street) -> None:
    """A form in an encoding that cannot decode it is 422."""
    content = b'--x\r\nContent-Disposition: form-data; name="message"\r\n\r\nhello\r\n--x--\r\n'
    headers = {"Content-Type": "multipart/form-data; boundary=x; charset=undefined"}
    answer = await (await site.program()).post("/agents/data/runs", content=content, headers=headers)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["path"] == "body"


async def test_in_forms_of_pages(porch: Porch) -> None:  # noqa: F811
    """In what a reviewer types on the page: refused with the field, and the request waits on."""
    request_id = await porch.asked()
    grace = await porch.visitor("U0GRACE")
    for form, field in (
        ("approve", "comment"),
        ("reject", "own"),
        ("edit", "signoff:edit:note"),
        ("withdraw", "why"),
    ):
        await grace.open(f"/inbox/requests/{request_id}")
        answer = await grace.send(f"/inbox/requests/{request_id}/{form}", {"revision": "1", field: NUL})
        assert answer.status_code == 422, form
        assert f"{field}: contains a NUL character" in grace.words
    assert await column(porch.house.db, "SELECT status::text FROM approval_request") == ["waiting"]
