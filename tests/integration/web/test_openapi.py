"""The description of the API: it is whole, its examples work, and every answer is as it says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from agent.domain.api_keys import Scope
from tests.integration.web.living import ADA, Living, living

METHODS = ("get", "put", "post", "delete", "patch")


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


async def _document(service: Living) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
        document: dict[str, Any] = (await client.get("/openapi.json")).json()
        return document


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, item[method])
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    ]


async def test_the_document_is_whole(service: Living) -> None:
    """Every operation has a name of its own, a described tag, a key, words, and problem details for what goes wrong."""
    document = await _document(service)
    operations = _operations(document)
    names = [operation["operationId"] for _, _, operation in operations]
    assert len(names) == len(set(names))
    described = {tag["name"] for tag in document["tags"]}
    for method, path, operation in operations:
        where = f"{method} {path}"
        assert operation["description"], where
        assert set(operation["tags"]) <= described, where
        assert operation["security"], where
        assert {"401", "403", "429", "503"} <= operation["responses"].keys(), where
        for status, answer in operation["responses"].items():
            if int(status) >= 400:
                assert list(answer["content"]) == ["application/problem+json"], (where, status)
    references = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert references <= document["components"]["schemas"].keys()
    assert not any(path.startswith(("/inbox", "/sign-in", "/docs")) for path in document["paths"])


async def test_the_examples_of_the_document_work(service: Living) -> None:
    """Each example body of an operation that takes one on its own is taken by it."""
    document = await _document(service)
    asker = await service.program("asker", Scope.REQUEST, owner=ADA)
    tried = []
    for method, path, operation in _operations(document):
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body is None or re.sub(r"\{agent_id\}/runs$", "", path).count("{"):
            continue
        if operation["tags"] == ["Webhooks"]:
            continue
        schema = body["schema"]
        schema = (
            document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
            if "$ref" in schema
            else schema
        )
        for example in schema.get("examples") or [_by_field(schema)]:
            address = path.replace("{agent_id}", "data_manager")
            answer = await asker.request(method, address, json=example)
            assert answer.status_code in (200, 201), (path, example, answer.text)
            tried.append(path)
    assert {"/pending", "/agents", "/agents/{agent_id}/runs"} <= set(tried)


def _by_field(schema: dict[str, Any]) -> dict[str, Any]:
    """The body that the fields' own examples make."""
    return {name: each["examples"][0] for name, each in schema["properties"].items() if each.get("examples")}


async def test_the_page_needs_nothing_from_elsewhere(service: Living) -> None:
    """The page and its parts come from here, no script or style is inline, and the policy allows nothing else."""
    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
        page = await client.get("/docs")
        parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert parts
        assert all(part.startswith("/") and not part.startswith("//") for part in parts)
        assert not re.search(r"<script>|<style|style=|\son\w+=", page.text)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        for part in parts:
            assert (await client.get(part)).status_code == 200, part
        assert (await client.get("/docs/other.js")).status_code == 404


async def test_what_anybody_may_read_is_made_once(service: Living, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document is not serialized for each caller, and the page's parts are not read from disk for each."""
    paths = ("/openapi.json", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css")

    def again(*_: object) -> bytes:
        raise AssertionError("made again")

    async with httpx.AsyncClient(base_url=service.url, trust_env=False) as client:
        first = [(await client.get(path)).content for path in paths]
        monkeypatch.setattr(JSONResponse, "render", again)
        monkeypatch.setattr(resources, "files", again)
        assert [(await client.get(path)).content for path in paths] == first
        assert (await client.head("/openapi.json")).status_code == 200
