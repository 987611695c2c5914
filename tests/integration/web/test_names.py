"""Names are stored and shown as they are, so what has the form of a secret is refused as one."""

from __future__ import annotations

import hashlib

import pytest

from agent.runtime.agents import Agent, Registry
from signoff.errors import SignoffError
from slackbot.app import Service
from slackbot.masking import is_no_name
from tests.integration.asking import column, rows
from tests.integration.command import Command, signoff  # noqa: F401 - a fixture
from tests.integration.web.conftest import Street

GITHUB = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize("field", ["request_id", "agent", "session", "action"])
async def test_a_secret_is_no_name_of_a_programs(site: Street, field: str) -> None:
    """A request's name, its agent, session and action: 422 names the field and repeats no secret; nothing is stored."""
    refused = await (await site.program()).ask(**{field: GITHUB})
    assert refused.status_code == 422
    [error] = refused.json()["errors"]
    assert field in error["path"]
    assert "has the form of a secret" in error["problem"]
    assert GITHUB not in refused.text
    assert await column(site.db, "SELECT count(*) FROM tool_call") == [0]


@pytest.mark.parametrize("base", ["", "/agentos"])
async def test_a_secret_is_no_session_of_an_agents(site: Street, base: str) -> None:
    """Nor is it the session of a run."""
    asker = await site.program()
    refused = await asker.post(f"{base}/agents/none/runs", data={"message": "go", "session_id": GITHUB})
    assert refused.status_code == 422, refused.text
    assert "has the form of a secret" in refused.text
    assert GITHUB not in refused.text


async def test_a_secret_is_no_name_of_a_webhook(site: Street) -> None:
    """Over the API either: 422 names the field and repeats no secret; nothing is stored."""
    admin = await site.program("admin", ["admin"])
    refused = await admin.post("/webhooks", json={"name": GITHUB, "url": "https://example.com/hook"})
    assert refused.status_code == 422, refused.text
    [error] = refused.json()["errors"]
    assert error["path"] == "name"
    assert "has the form of a secret" in error["problem"]
    assert GITHUB not in refused.text
    assert await column(site.db, "SELECT count(*) FROM webhook") == [0]


@pytest.mark.parametrize(
    "words",
    [
        ("keys", "create", GITHUB, "--scope", "read"),
        ("keys", "create", "crm", "--scope", "request", "--agent", GITHUB),
        ("webhooks", "add", GITHUB, "https://example.com/hook"),
    ],
)
def test_a_secret_is_no_name_that_an_operator_gives(
    signoff: Command,  # noqa: F811
    words: tuple[str, ...],
) -> None:
    """The command refuses it before anything is stored."""
    ended = signoff(*words)
    assert ended.status == 2
    assert "has the form of a secret" in " ".join(ended.said.replace("│", " ").split())


async def test_a_secret_is_no_agents_name(site: Street) -> None:
    """A service with such an agent does not start."""
    running = site.service
    with pytest.raises(SignoffError, match="the name of an agent has the form of a secret"):
        Service(running.settings, running.db, running._file, Registry([Agent(GITHUB, "x", [])]))


@pytest.mark.parametrize(
    "name",
    [
        "e89807b1-8590-4552-a4a5-c0a0a9479a05",
        "sha256:" + hashlib.sha256(b"x").hexdigest(),
        hashlib.sha1(b"x").hexdigest(),
        "run-1:call_aB3aB3aB3aB3aB3aB3aB3aB3",
        "toolu_01A09q90qw90lq917835lq9:read",
        "01HZX3K5N6Q8R9S0T1V2W3X4Y5",
        "refresh-token:4",
        "C0AGENTS:1700000000.123456",
    ],
)
def test_what_programs_use_as_names_are_names(name: str) -> None:
    """Ids, digests and the frameworks' names of calls and threads pass."""
    assert not is_no_name(name)


async def test_an_idempotency_key_is_stored_as_a_hash(site: Street) -> None:
    """Neither the header's words nor a `start_key` are in the database; repetitions are recognised all the same."""
    program = await site.program()
    question = {"request_id": "r-1", "action_description": "Say yes"}
    answers = [
        await program.post("/pending", json=question, headers={"Idempotency-Key": GITHUB}) for _ in range(2)
    ]
    assert [each.status_code for each in answers] == [201, 201]
    assert answers[1].headers["Idempotency-Replayed"] == "true"
    assert await column(site.db, "SELECT key FROM http_reply") == [
        hashlib.sha256(GITHUB.encode()).hexdigest()
    ]
    assert not [row for row in await rows(site.db, "SELECT r::text FROM http_reply AS r") if GITHUB in row[0]]
