"""Programs elsewhere, as processes: what they say while they wait, and that they go on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agent.domain.api_keys import Scope
from agent.usecases import api_keys
from signoff.values import Person
from slackbot.cards import ACTION_APPROVE
from tests.doc_blocks import blocks
from tests.integration.service.conftest import House, http_house  # noqa: F401
from tests.warm_python import warm

ROOT = Path(__file__).parents[3]
[QUICKSTART] = [
    each.code
    for each in blocks("docs/quickstart.md")
    if each.language == "python" and "ApprovalClient" in each.code
]
WAITS = "signoff: waiting for people to decide about"
SHOWN = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]
"""


@pytest.fixture
async def environment(http_house: House) -> dict[str, str]:  # noqa: F811
    """A running service, and what a program of Ada's finds in its environment."""
    service = await http_house.open([], SHOWN)
    ada = Person(http_house.slack.workspace.team.id, "U0ADA")
    key = await api_keys.create(http_house.db, "deploys", [Scope.REQUEST], by="test", owner=ada)
    return os.environ | {
        "SIGNOFF_URL": f"http://127.0.0.1:{service.port}",
        "SIGNOFF_KEY": key,
        "PYTHONPATH": str(ROOT),
    }


async def approved(house: House, script: Path, environment: dict[str, str]) -> tuple[str, str, str]:
    """The link to the card, and what the program said on both streams until its end."""
    process = await asyncio.create_subprocess_exec(
        warm(),
        str(script),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    card = await house.card()
    link = (
        await house.services[0].slack.parts.connection.client.chat_getPermalink(  # type: ignore[union-attr]
            channel=card["channel"], message_ts=card["ts"]
        )
    )["permalink"]
    first = ""
    while "waiting" not in first and not first.endswith(".\n"):
        first += (await process.stderr.readline()).decode()
    answer = await house.slack.person("U0GRACE").click(card, ACTION_APPROVE)
    assert answer.error is None
    out, rest = await process.communicate()
    assert process.returncode == 0, first + rest.decode()
    return link, out.decode(), first + rest.decode()


async def test_the_quickstart_s_program_says_that_it_waits_and_goes_on(
    http_house: House,  # noqa: F811
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """Pasted as it stands: one line with the card's link; after the press the function runs."""
    script = tmp_path / "deploy.py"
    script.write_text(QUICKSTART)
    link, out, err = await approved(http_house, script, environment)
    assert out == "deployed to eu\n"
    [line] = err.splitlines()
    assert line.startswith(WAITS)
    assert line.endswith(f": {link}")


LOGGING = {
    "the root logger": (
        "logging.basicConfig(level=logging.INFO, format='LOG %(message)s')",
        "LOG paused: waiting",
    ),
    "the logger of Signoff": (
        "log = logging.getLogger('signoff'); log.setLevel(logging.INFO); log.addHandler(logging.StreamHandler())",
        "paused: waiting",
    ),
    "a higher level": ("logging.basicConfig(level=logging.WARNING)", None),
}


@pytest.mark.parametrize("configured", LOGGING)
async def test_a_program_with_a_log_has_the_line_there(
    http_house: House,  # noqa: F811
    environment: dict[str, str],
    tmp_path: Path,
    configured: str,
) -> None:
    """Where logging is configured, the line is logged at INFO, and nothing is written beside it."""
    setup, begins = LOGGING[configured]
    script = tmp_path / "deploy.py"
    script.write_text(f"import logging, sys\n{setup}\n{QUICKSTART}\nprint('.', file=sys.stderr)\n")
    if begins is None:
        script.write_text(
            script.read_text().replace(
                "print(deploy", "print('.', file=sys.stderr, flush=True)\nprint(deploy"
            )
        )
    link, out, err = await approved(http_house, script, environment)
    assert out == "deployed to eu\n"
    assert WAITS not in err.replace("paused: waiting", "")
    lines = [line for line in err.splitlines() if "waiting" in line]
    assert len(lines) == (begins is not None)
    assert all(line.startswith(str(begins)) and line.endswith(link) for line in lines)


LOOKS = """
import asyncio, os, sys
from signoff import AsyncApprovalClient

async def main():
    client = AsyncApprovalClient(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"])
    asked = await client.submit("deploy", {"region": "eu\\u202e\\x1b[2J"})
    while asked.status == "waiting":
        asked = await client.get(asked.id, wait=2)
    decision = await client.ask("deploy", {"region": "eu\\u202e\\x1b[2J"}, key=asked.request_id)
    print(decision.status)

asyncio.run(main())
"""


async def test_a_request_has_one_line_however_often_it_is_looked_at(
    http_house: House,  # noqa: F811
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """A loop over `get` says it once; what agents write cannot move the cursor."""
    script = tmp_path / "looks.py"
    script.write_text(LOOKS)
    _, out, err = await approved(http_house, script, environment)
    assert out == "approved\n"
    [line] = err.splitlines()
    assert line.startswith(WAITS)
    assert "\x1b" not in line
    assert "\u202e" not in line
