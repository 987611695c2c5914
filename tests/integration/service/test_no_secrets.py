"""Secrets of every kind, planted everywhere, through the whole service: nobody is shown one, and the tool gets them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from agent.runtime.agents import Agent
from agent.runtime.tool import tool
from signoff_demo.sandbox.model import ScriptedCall, ScriptedTurn
from slackbot.service import logs
from tests.integration.service.conftest import House
from tests.planted import SECRETS, URL_PASSWORD

PASSWORD = "correct-horse" + "-battery"
CARD = "4111" + "222233334444"
ALL = "; ".join(SECRETS.values())
DSN = f"postgres://joe:{URL_PASSWORD}@db.example/shop"
SAID = f"{ALL}; {DSN}; password={PASSWORD}; card {CARD[:4]} {CARD[4:8]} {CARD[8:12]} {CARD[12:]}; {PASSWORD}"
ARGUMENTS = {"note": f"{ALL} {DSN}", "password": PASSWORD, "card_number": CARD, "order": "ORD-4711"}

POLICY = """
[defaults]
channel = "C0REVIEW"
approvers = ["S0FINANCE"]

[[checkpoint]]
checkpoint_id = "rotation"
action_pattern = "rotate"
redact = ["card_number", "facts.iban"]
on_reject = "tell_model"
"""
IBAN = "DE0212030000" + "0000202051"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All log output of the service, at its most talkative, in both forms at once."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", out)
        logs.configure("DEBUG", "json")
        as_json = root.handlers[0]
        logs.configure("DEBUG", "text")
        root.addHandler(as_json)
        yield out
    structlog.reset_defaults()
    root.handlers[:], root.level = handlers, level


class Rotation:
    """A tool that repeats everything it receives, in its facts, its result and its errors."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []
        self.fails = False

    def agent(self) -> Agent:
        def looked_up(order: str) -> dict[str, Any]:
            return {"api_key": PASSWORD, "seen": ALL, "iban": IBAN, "order": order, "dsn": DSN}

        @tool(facts=looked_up)
        def rotate(note: str, password: str, card_number: str, order: str) -> str:
            """Rotate the keys."""
            self.given.append(
                {"note": note, "password": password, "card_number": card_number, "order": order}
            )
            if self.fails:
                raise RuntimeError(f"wrong: {PASSWORD} {CARD} {DSN} {ALL}")
            return json.dumps({"done": order, "tokens": [PASSWORD], "text": SAID, "iban": IBAN})

        return Agent("keys", "Rotate keys.", [rotate])


def leaks(text: str) -> list[str]:
    """Which of the planted values can be read in a text, as they are or as JSON writes them."""
    values = SECRETS | {"password": PASSWORD, "card": CARD, "url": URL_PASSWORD, "iban": IBAN}
    values["card, grouped"] = " ".join(CARD[at : at + 4] for at in range(0, 16, 4))
    pieces = {
        kind: [line for line in value.split("\n") if "-----" not in line] for kind, value in values.items()
    }
    found = [(kind, line) for kind, lines in pieces.items() for line in lines if line[-20:] in text]
    # where it stands, for whoever has to mend it
    return [f"{kind}: …{text[max(0, text.find(line[-20:]) - 300) :][:420]}…" for kind, line in found]


def all_that_slack_has(house: House) -> str:
    """Every call with its arguments, and what people can look at now."""
    slack = house.slack
    seen: list[Any] = [[call.method, call.args] for call in slack.calls]
    seen += slack.workspace.messages.ephemeral_messages()
    seen += [slack.views(user) for user in ("U0ADA", "U0GRACE")]
    seen += [slack.home(user) for user in ("U0ADA", "U0GRACE")]
    seen += [file.get("content") for file in slack.workspace.files.values()]
    return json.dumps(seen, default=str, ensure_ascii=False)


async def everything_typed(house: House, request: str) -> str:
    """What every command answers about it."""
    responses = []
    for user in ("U0ADA", "U0GRACE"):
        for command, text in (
            ("/approvals", ""),
            ("/approvals", f"show {request}"),
            ("/approvals", "mine"),
            ("/approvals", "all"),
            ("/approvals", "inbox"),
            ("/approvals", "history"),
            ("/agent", "status"),
            ("/agent", "list"),
            ("/agent", f"run nobody with {SECRETS['github-token']}"),
            ("/agent", f"{SECRETS['aws-key']} {DSN}"),
        ):
            answer = await house.slack.person(user).command(command, text, "C0AGENTS")
            responses.append([answer.response, answer.posts, answer.ephemeral, answer.error])
        house.slack.person(user).open_home()
    return json.dumps(responses, default=str, ensure_ascii=False)


@pytest.mark.parametrize("fails", [False, True], ids=["result", "error"])
async def test_planted_secrets_reach_the_tool_and_nobody_else(
    http_house: House, written: io.StringIO, fails: bool
) -> None:
    """In arguments, facts, rationale, task, result and error: 0 in Slack, logs and record; the tool got all of them."""
    house, rotation = http_house, Rotation()
    rotation.fails = fails
    await house.open([rotation.agent()], POLICY)
    house.model.script(
        ScriptedTurn(f"I do it because {SAID}", (ScriptedCall("rotate", ARGUMENTS),)),
        ScriptedTurn(f"The answer: {SAID} {IBAN}"),
    )
    await house.ask("U0ADA", f"rotate {ALL} {DSN}", agent="keys")
    card = await house.card()
    shown = json.dumps(house.now(card), ensure_ascii=False)
    assert "ORD-4711" in shown
    for kind in (
        "github-token, 40",
        "aws-key, 20",
        "private-key",
        "named-secret",
        "by-policy, 16",
        "by-policy, 22",
    ):
        assert kind in shown, kind
    [request] = await house.column("SELECT id::text FROM approval_request")
    typed = await everything_typed(house, request)
    answer = await house.slack.person("U0GRACE").click(card, "signoff:approve")
    assert answer.error is None
    await house.says("The answer")
    await house.says("Failed" if fails else "Done", channel="C0REVIEW")
    typed += await everything_typed(house, request)
    assert rotation.given == [ARGUMENTS]
    assert leaks(all_that_slack_has(house)) == []
    assert leaks(typed) == []
    assert leaks(written.getvalue()) == []
    audit = await house.column("SELECT audit_event::text FROM audit_event")
    assert leaks("\n".join(audit)) == []
    assert "ORD-4711" not in "\n".join(audit)
    assert await house.column(
        "SELECT convert_from(action, 'UTF8')::jsonb -> 'arguments' FROM request_revision"
    ) == [ARGUMENTS]
    heard = json.dumps(house.model.requests[-1]["messages"], ensure_ascii=False)
    assert PASSWORD in heard


@pytest.mark.parametrize("said", ["Charge {} for ORD-4711", "order: ORD-4711\ncard_number: {}"])
async def test_a_task_hides_what_policy_hides_from_its_first_message_on(http_house: House, said: str) -> None:
    """A number under `redact` is in no message about its run, not even before the model has called anything."""
    house, rotation = http_house, Rotation()
    await house.open([rotation.agent()], POLICY)
    house.model.script(ScriptedTurn("I do it", (ScriptedCall("rotate", ARGUMENTS),)), ScriptedTurn("Done."))
    grouped = " ".join(CARD[at : at + 4] for at in range(0, 16, 4))
    await house.ask("U0ADA", said.format(grouped), agent="keys")
    card = await house.card()
    await house.slack.person("U0GRACE").click(card, "signoff:approve")
    await house.says("Done")
    seen = all_that_slack_has(house)
    assert [seen[max(0, seen.find(each) - 300) :][:400] for each in (CARD, grouped) if each in seen] == []
    assert "ORD-4711" in seen


async def test_a_reviewers_reason_is_shown_without_secrets_and_reaches_the_model(
    http_house: House, written: io.StringIO
) -> None:
    """A token typed into the reject form stands masked in thread, card and log; the model reads the true words."""
    house, rotation = http_house, Rotation()
    await house.open([rotation.agent()], POLICY)
    house.model.script(
        ScriptedTurn("", (ScriptedCall("rotate", ARGUMENTS),)), ScriptedTurn("I will not do it.")
    )
    await house.ask("U0ADA", "rotate them", agent="keys")
    card = await house.card()
    grace = house.slack.person("U0GRACE")
    await grace.click(card, "signoff:reject")
    [form] = await house.slack.wait_for(lambda: house.slack.views("U0GRACE"))
    reason = f"not with {SECRETS['stripe-key']} nor {PASSWORD}"
    await grace.submit(form, {"signoff:reason_input": reason})
    await house.says("I will not do it.")
    await house.says("⟦redacted stripe-key, 32 characters⟧", channel="C0REVIEW")
    assert rotation.given == []
    assert leaks(all_that_slack_has(house)) == []
    assert leaks(written.getvalue()) == []
    assert leaks("\n".join(await house.column("SELECT audit_event::text FROM audit_event"))) == []
    assert reason in json.dumps(house.model.requests[-1]["messages"], ensure_ascii=False)


async def test_facts_that_fail_are_logged_without_the_arguments(
    http_house: House, written: io.StringIO
) -> None:
    """The look-up's error repeats a value that only `redact` makes a secret: the log says why, not what."""

    def broken(card_number: str) -> dict[str, Any]:
        raise ValueError(f"no card {card_number} on file")

    @tool(facts=broken)
    def rotate(card_number: str) -> str:
        """Rotate a card."""
        return card_number

    await http_house.open([Agent("keys", "Rotate.", [rotate])], POLICY)
    http_house.model.script(ScriptedTurn("", (ScriptedCall("rotate", {"card_number": CARD}),)))
    await http_house.ask("U0ADA", "rotate it", agent="keys")
    await http_house.card()
    assert "⟦redacted argument, 16 characters⟧ on file" in written.getvalue()
    assert leaks(written.getvalue()) == []
