"""What people see of the actions and questions of programs: the same words on card, page, list and e-mail."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from agent.domain.api_keys import Scope
from agent.domain.outbound import OutboundEvent, OutboundMessage
from agent.store import views
from agent.usecases import api_keys
from signoff import ask, function_agent
from signoff.client import AsyncApprovalClient, Review
from signoff.values import COMMAND
from slackbot.masking import clean_view
from slackbot.outbound.mail import message
from tests.integration.service.conftest import House, http_house
from tests.integration.web.visiting import ADA, PUBLIC, Porch, open_porch
from tests.rendered import above_the_buttons

__all__ = ["http_house"]

POLICY = '[defaults]\nchannel = "C0REVIEW"\napprovers = ["S0FINANCE"]\n'
PLUMBING = ("external", "unmatched", "requires_approval", "timeout_seconds", "risk: none", COMMAND)
UNNAMED = "No rule names this action, so people are asked"


@function_agent
async def rollout(task: str) -> str:
    await ask("Roll out to everybody?", timeout="3d", arguments={"share": 50})
    return task


@pytest.fixture
async def porch(http_house: House) -> Porch:
    return await open_porch(http_house, [rollout], POLICY, SIGNOFF_ROLES="web,worker,scheduler")


async def submit(porch: Porch, action: str | None, arguments: dict[str, Any] | None, **more: Any) -> Review:
    key = await api_keys.create(porch.house.db, "crm", [Scope.REQUEST], by="test", owner=ADA)
    async with AsyncApprovalClient(f"http://127.0.0.1:{porch.service.port}", key) as client:
        review = await client.submit(action, arguments, **more)
        assert isinstance(review, Review)
        return review


async def seen(porch: Porch, review: Review) -> tuple[list[str], dict[str, str]]:
    """The card's lines, and the other places' words."""
    lines = above_the_buttons((await porch.house.card())["blocks"])
    reader = await porch.visitor("U0GRACE")
    await reader.open("/inbox")
    places = {"list": reader.words.rpartition("Waiting for you")[2]}
    await reader.open(f"/inbox/requests/{review.id}")
    places["page"] = re.sub(r"Exactly, and in full \{.*?\}", "", reader.words)
    asked = UUID(review.id)
    view = await porch.house.db.read(views.request_view, asked)
    assert view is not None
    notice = OutboundMessage(
        uuid4(), OutboundEvent.REQUEST_OPENED, None, "f@x.example", asked, None, 1, datetime.now(UTC)
    )
    mail = message(notice, "f@x.example", await clean_view(view), f"{PUBLIC}/x", "s@x.example")
    places["mail"] = str(mail["Subject"])
    for name, words in {"card": " ".join(lines), **places}.items():
        for plumbing in PLUMBING:
            assert plumbing not in words, (name, plumbing, words)
    return lines, places


async def test_an_action_reads_like_one_of_the_tour(porch: Porch) -> None:
    """Its title is what is done with what, which is said once, and so is that no rule names it."""
    review = await submit(porch, "deploy", {"region": "eu"}, description="deploy(region: 'eu')")
    lines, places = await seen(porch, review)
    title = "deploy · region: eu"
    assert lines[0] == f"Medium risk · {title}"
    assert "\n".join(lines).count("region") == "\n".join(lines).count(title) == 1
    assert " ".join(lines).count(UNNAMED) == 1
    assert all(title in words for words in places.values()), places
    assert places["page"].count(UNNAMED) == 1


async def test_words_of_the_program_that_say_more_are_quoted(porch: Porch) -> None:
    """A description beside an action never is the title: it stays below, as the program's own words."""
    review = await submit(porch, "deploy", {"region": "eu"}, description="Ann has agreed.\nApproved: yes")
    lines, places = await seen(porch, review)
    assert lines[0] == "Medium risk · deploy · region: eu"
    assert lines[lines.index("| Ann has agreed.") - 1] == "The agent's own words (not checked):"
    assert "Ann has agreed" in places["page"]
    assert "Ann" not in places["mail"]


async def test_the_command_of_a_gate_is_shown_once_as_a_shell_prints_it(porch: Porch) -> None:
    """On the card in code and nowhere else; lists and e-mail, which have no code, name it after the arguments."""
    arguments = {"env": "prod", COMMAND: ["./deploy.sh", "--message", "two words"]}
    lines, places = await seen(porch, await submit(porch, "deploy", arguments))
    command = "./deploy.sh --message 'two words'"
    assert lines[0] == "Medium risk · deploy · env: prod"
    assert [line for line in lines if "deploy.sh" in line] == [f"` {command}"]
    assert places["page"].count(command) == 2, places["page"]  # in the window's title, and as code
    assert all(f"deploy · env: prod · {command}" in words.replace("․", ".") for words in places.values()), (
        places
    )


async def test_a_programs_question_is_its_own_text(porch: Porch) -> None:
    """Quoted, and with what the program said about it; names and times of our own protocol are left out."""
    review = await submit(porch, None, None, description="May I tell them?", context={"customer": "Ines"})
    lines, places = await seen(porch, review)
    assert lines[0] == "Medium risk · The agent asks: “May I tell them?”"
    assert "• customer: Ines" in lines
    assert not any("action_description" in line or "request_id" in line for line in lines)
    assert all("The agent asks: “May I tell them?”" in words for words in places.values()), places


async def test_a_function_agents_question_is_its_own_text(porch: Porch) -> None:
    """Its text is the title; the arguments are those about which it asks, not those of the call."""
    await porch.house.ask("U0ADA", "begin", agent="rollout")
    lines = above_the_buttons((await porch.house.card())["blocks"])
    assert lines[0] == "Medium risk · Roll out to everybody?"
    assert "• share: 50" in lines
    said = "\n".join(lines)
    assert said.count("Roll out") == 1
    assert not any(plumbing in said for plumbing in PLUMBING), said
