"""The whole API against its own description: whatever is sent, no answer is a failure of ours or one not described."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis.configuration import storage_directory

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.values import Person
from tests.integration.web.living import ADA, GRACE, Living, living
from tests.stress.budget import full

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "negative_data_rejection",
)
COMMAND = Path(sys.executable).with_name("schemathesis")

pytestmark = pytest.mark.skipif(
    not COMMAND.exists() and shutil.which("schemathesis") is None, reason="schemathesis is not installed"
)


@pytest.fixture
async def service(database_url: str) -> AsyncIterator[Living]:
    """The service with its example agents."""
    async with living(database_url) as opened:
        yield opened


async def _conform(
    service: Living, name: str, scopes: Sequence[Scope], owner: Person, folder: Path, *how: str
) -> None:
    """Everything that a key with these scopes may call, and all that it may not."""
    secret = await api_keys.create(
        service.house.db, name, scopes, by="test", owner=owner, per_minute=1_000_000
    )
    process = await asyncio.create_subprocess_exec(
        str(COMMAND) if COMMAND.exists() else "schemathesis",
        "run",
        f"{service.url}/openapi.json",
        "--header",
        f"Authorization: Bearer {secret}",
        "--checks",
        ",".join(CHECKS),
        "--exclude-path",
        "/events",  # a stream without an end
        "--exclude-path",
        "/runs/{run_id}/events",
        "--warnings",
        "off",
        "--no-shrink",
        "--generation-database",
        "none",
        "--continue-on-failure",
        "--request-timeout",
        "90",
        *how,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": str(Path(__file__).with_name("short_waits.py")),
            # Tables of Unicode, which take seconds to compute, are kept outside the test's own folder.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(storage_directory().path.resolve()),
        },
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


WHO = [
    pytest.param("asker", (Scope.REQUEST, Scope.ON_BEHALF), ADA, id="asker"),
    pytest.param("operator", (Scope.DECIDE, Scope.READ, Scope.ADMIN, Scope.EXECUTE), GRACE, id="operator"),
]


@pytest.mark.parametrize(("name", "scopes", "owner"), WHO)
async def test_the_api_does_what_it_says(
    service: Living, tmp_path: Path, name: str, scopes: tuple[Scope, ...], owner: Person
) -> None:
    """A few calls of each operation, sound ones and broken ones, from a fixed seed (examples: test_openapi.py)."""
    await _conform(
        service,
        name,
        scopes,
        owner,
        tmp_path,
        "--phases",
        "fuzzing",
        "--max-examples",
        "2",
        "--seed",
        "1",
    )


@pytest.mark.stress
@pytest.mark.parametrize(("name", "scopes", "owner"), WHO)
async def test_the_api_does_what_it_says_at_length(
    service: Living, tmp_path: Path, name: str, scopes: tuple[Scope, ...], owner: Person
) -> None:
    """All phases, boundary values and chains of calls included, hundreds of calls of each operation."""
    await _conform(service, name, scopes, owner, tmp_path, "--max-examples", str(full(150)))
