"""The last look before Slack: what a surface forgot to clean is masked on its way out, and fits where it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff_demo.sandbox import SlackSandbox
from slackbot.masking.slack_payloads import clean_payload
from slackbot.slack.bolt_app import CleanAck
from slackbot.slack_api.client import SlackClient
from tests.planted import SECRETS, URL_PASSWORD

EVERY = " ".join(SECRETS.values())
TOKEN = SECRETS["github-token"]
DSN = f"postgres://joe:{URL_PASSWORD}@db.example/shop"


def leaks(value: Any) -> list[str]:
    text = json.dumps(value, ensure_ascii=False, default=str)
    lines = {kind: secret.split("\n")[-2 if "\n" in secret else 0] for kind, secret in SECRETS.items()}
    return [kind for kind, line in (lines | {"url": URL_PASSWORD}).items() if line[-16:] in text]


def blocks(words: str) -> list[dict[str, Any]]:
    text = {"type": "text", "text": words}
    rich = {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": [text]}]}
    return [rich, {"type": "header", "text": {"type": "plain_text", "text": f"key {TOKEN}"}}]


async def test_messages_views_and_files_leave_without_secrets() -> None:
    """Posts, updates, whispers, modals, App Home and uploads, made by somebody who forgot to clean them."""
    async with SlackSandbox(rate_limits=False) as slack:
        client = SlackClient(slack.bot_token, slack.api_url)
        posted = await client.chat_postMessage(
            channel="C0REVIEW", text=f"{EVERY} {DSN}", blocks=blocks(EVERY)
        )
        await client.chat_update(channel="C0REVIEW", ts=posted["ts"], text=EVERY, blocks=blocks(DSN))
        await client.chat_postEphemeral(channel="C0REVIEW", user="U0GRACE", text=EVERY)
        home = {"type": "home", "blocks": blocks(EVERY)}
        await client.views_publish(user_id="U0GRACE", view=home)
        await client.files_upload_v2(
            channel="C0REVIEW", filename="all.txt", content=f"{EVERY}\n{DSN}", title=TOKEN
        )
        assert leaks([call.args for call in slack.calls]) == []
        assert leaks([slack.home("U0GRACE"), slack.ephemeral("U0GRACE")]) == []
        assert leaks([file["content"] for file in slack.workspace.files.values()]) == []
        assert len(slack.calls_of("files.completeUploadExternal")) == 1
        [stored] = [file["content"] for file in slack.workspace.files.values()]
        assert "⟦redacted" in stored.decode()


async def test_a_file_that_cannot_be_read_here_is_not_sent() -> None:
    """Bytes from a disk would pass unseen."""
    async with SlackSandbox(rate_limits=False) as slack:
        client = SlackClient(slack.bot_token, slack.api_url)
        with pytest.raises(ValueError, match="as text"):
            await client.files_upload_v2(channel="C0REVIEW", filename="x", file="/dev/null")
        assert slack.calls == []


async def test_acknowledgements_are_cleaned() -> None:
    """A command's answer and a form's errors go back in the same breath."""
    ack = CleanAck()
    await ack(text=f"no {EVERY}", blocks=blocks(EVERY), response_type="ephemeral")
    assert ack.response is not None
    assert leaks(ack.response.body) == []
    assert "ephemeral" in ack.response.body
    await ack(response_action="errors", errors={"signoff:reason": f"not {TOKEN}"})
    assert leaks(ack.response.body) == []
    await ack(f"plain {TOKEN}")
    assert leaks(ack.response.body) == []


def test_a_bare_acknowledgement_waits_for_no_thread() -> None:
    """With nothing to look through, Slack is answered before anything else happens in the event loop."""
    ack = CleanAck()
    with pytest.raises(StopIteration) as ended:
        ack().send(None)
    assert ended.value.value.status == 200


async def test_masks_on_the_way_out_are_no_longer_than_what_they_replace() -> None:
    """Slack limits every text: a card that fitted still fits."""
    header = {"type": "plain_text", "text": f"{'x' * 109} {TOKEN}"}
    payload: dict[str, Any] = {"header": header, "text": "password=abc, postgres://u:p@h/x"}
    shown = await clean_payload(payload)
    assert len(shown["header"]["text"]) <= 150
    assert shown["text"] == "password=•••, postgres://u:•@h/x"


async def test_ids_and_states_pass_as_they_are() -> None:
    """A mask in a button's value or a form's state would break what we read back."""
    payload = {
        "value": TOKEN,
        "private_metadata": TOKEN,
        "action_id": TOKEN,
        "block_id": TOKEN,
        "url": f"https://x/{TOKEN}",
    }
    shown = await clean_payload(payload)
    assert shown == payload | {"url": "https://redacted.invalid/"}
