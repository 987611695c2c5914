"""The description of the API: it is whole, its examples work, and every answer is as it says."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate
from starlette.responses import JSONResponse

from agent.domain.api_keys import Scope
from slackbot.web.http.problems import SPELLINGS
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


def _patterns(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_patterns, value))
    if not isinstance(value, dict):
        return set()
    own = {value["pattern"]} if isinstance(value.get("pattern"), str) else set()
    return own.union(*map(_patterns, value.values()))


async def test_a_wrong_name_gets_a_sentence_and_no_pattern(service: Living) -> None:
    """Each pattern of the document has words for people, with an example, and problem details say these."""
    assert _patterns(await _document(service)) <= SPELLINGS.keys()
    asker = await service.program("asker", Scope.REQUEST, Scope.ON_BEHALF, owner=ADA)
    asked = {"request_id": "r-1", "action": "delete_records", "arguments": {}}
    wrong: dict[str, tuple[str, str]] = {
        "request_id": ("delete 42", "such as `delete-42`"),
        "action": ("rm -rf", "such as `delete_records`"),
        "requester": ("@ada", "such as `U012ABCDEF`"),
        "agent": ("a\nb", "no line breaks"),
        "session": ("a\nb", "no line breaks"),
    }
    for name, (value, words) in wrong.items():
        detail = (await asker.post("/pending", json={**asked, name: value})).json()["detail"]
        assert (words in detail, "[" in detail, "^" in detail) == (True, False, False), detail
    for path in (
        "/agents/data_manager/runs/17",
        "/agentos/agents/data_manager/runs/17",
        "/pending/delete%2042",
    ):
        answer = await asker.get(path)
        assert answer.status_code == 422, answer.text
        assert "such as `" in answer.json()["detail"], answer.text
        assert "[" not in answer.json()["detail"], answer.text


async def test_the_examples_of_the_document_work(service: Living) -> None:
    """Each example body of an operation that takes one on its own is taken by it."""
    document = await _document(service)
    asker = await service.program("asker", Scope.REQUEST, owner=ADA)
    tried = []
    for method, path, operation in _operations(document):
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if body is None or re.sub(r"\{agent_name\}/runs$", "", path).count("{"):
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
            address = path.replace("{agent_name}", "data_manager")
            answer = await asker.request(method, address, json=example)
            assert answer.status_code in (200, 201), (path, example, answer.text)
            tried.append(path)
    assert {"/pending", "/agents", "/agents/{agent_name}/runs"} <= set(tried)


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


KEYWORDS = {
    *("$ref", "$defs", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "not", "format", "discriminator"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "pattern", "contentMediaType", "contentSchema", "contentEncoding"),
    *("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    *("properties", "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties"),
}
"""Of JSON Schema 2020-12, and `discriminator` of OpenAPI 3.1."""


def _schemas(found: Any) -> Iterator[dict[str, Any]]:
    """All schemas of a document or schema, nested ones included."""
    if isinstance(found, list):
        for each in found:
            yield from _schemas(each)
    elif isinstance(found, dict):
        for key, value in found.items():
            if key == "schema":
                yield from _within(value)
            elif key == "schemas":
                for each in value.values():
                    yield from _within(each)
            elif key not in ("examples", "example"):
                yield from _schemas(value)


def _within(schema: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "$defs"):
        for each in schema.get(key, {}).values():
            yield from _within(each)
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for each in schema.get(key, []):
            yield from _within(each)
    for key in ("items", "additionalProperties", "not", "contentSchema", "propertyNames"):
        yield from _within(schema.get(key))


async def test_every_schema_is_json_schema(service: Living) -> None:
    """The document is valid OpenAPI 3.1; no schema has a word that JSON Schema does not know, or an enum that mixes
    types, which generators of clients drop; a text for a length of time has a pattern.
    """
    document = await _document(service)
    validate(document, cls=OpenAPIV31SpecValidator)
    schemas = list(_schemas(document))
    assert len(schemas) > 300
    for schema in schemas:
        Draft202012Validator.check_schema(schema)
        assert schema.keys() <= KEYWORDS, schema
        assert len({type(each) for each in schema.get("enum", [])}) <= 1, schema
    lengths = [schema for schema in schemas if {"number", "string"} <= _kinds(schema)]
    properties = [
        document["components"]["schemas"][name]["properties"] for name in ("ClaimIn", "CallClaimIn")
    ]
    assert all(each["lease"] in lengths for each in properties)
    assert len(lengths) == 4, "the leases, and how long a reader of one or of several waits"
    for schema in lengths:
        length = Draft202012Validator(schema)
        for good in (60, "90", "1.5", "1h30m", "2d", "45s"):
            assert length.is_valid(good), (good, schema)
        for bad in (-1, 90_000, "", "1h30", "an hour", "30m1h", True):
            assert not length.is_valid(bad), (bad, schema)


def _kinds(schema: dict[str, Any]) -> set[str]:
    """The types of its alternatives; a point in time is no length of time."""
    return {each.get("type", "") for each in schema.get("anyOf", []) if each.get("format") != "date-time"}


async def test_names_say_what_they_name(service: Living) -> None:
    """Each operation's id is a verb with what it is about, and a parameter means the same on each path."""
    meanings: dict[str, set[str]] = {}
    for _, path, operation in _operations(await _document(service)):
        assert "_" in operation["operationId"], operation["operationId"]
        for parameter in operation.get("parameters", []):
            if parameter["in"] == "path":
                schema = {k: v for k, v in parameter["schema"].items() if k in ("type", "format")}
                meanings.setdefault(parameter["name"], set()).add(str(schema))
        assert set(re.findall(r"\{(\w+)\}", path)) == {
            each["name"] for each in operation.get("parameters", []) if each["in"] == "path"
        }
    assert {name: kinds for name, kinds in meanings.items() if len(kinds) > 1} == {}


async def test_a_path_names_all_its_methods(service: Living) -> None:
    """405 has the methods of all operations on the path in `Allow`, and each read answers HEAD without a body."""
    grace = await service.program("grace", Scope.REQUEST, Scope.READ, Scope.ADMIN, owner=ADA)
    items = (await _document(service))["paths"]
    for path, item in items.items():
        address = re.sub(r"\{\w+\}", "01980000-0000-7000-8000-000000000000", path)
        refused = await grace.request("TRACE", address)
        assert refused.status_code == 405, path
        methods = {method.upper() for method in METHODS if method in item}
        assert set(refused.headers["allow"].split(", ")) >= methods | ({"HEAD"} if "get" in item else set())
        if "get" in item:
            head = await grace.head(address)
            assert (head.status_code in (200, 403, 404, 422), head.content) == (True, b""), path
    assert (await grace.head("/pending")).status_code == 200
    assert (await grace.head("/events")).status_code == 200
