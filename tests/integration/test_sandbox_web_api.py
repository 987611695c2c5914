"""The unmodified slack_sdk client against the stand-in's Web API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from signoff_demo.sandbox import SandboxWorkspace, SlackSandbox, demo_workspace

BLOCKS = [{"type": "section", "text": {"type": "mrkdwn", "text": "a < b"}}]
METADATA = {"event_type": "card", "event_payload": {"nonce": "n1"}}
HOME = {"type": "home", "blocks": BLOCKS}
MODAL = {"type": "modal", "title": {"type": "plain_text", "text": "T"}, "blocks": BLOCKS}


@pytest_asyncio.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    workspace = demo_workspace().add_channel("C0OTHER", "other", ["U0ADA"], is_private=True)
    more = ("channels:join", "files:read", "reactions:write", "users:read.email")
    workspace.bot = replace(workspace.bot, scopes=(*workspace.bot.scopes, *more))
    workspace.add_channel("C0PUBLIC", "public", ["U0ADA"]).add_channel(
        "C0OLD", "old", ["U0BOT"], is_archived=True
    )
    async with SlackSandbox(workspace, rate_limits=False) as sandbox:
        yield sandbox


@pytest.fixture
def client(slack: SlackSandbox) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


async def refusal(call: Awaitable[Any]) -> str:
    with pytest.raises(SlackApiError) as refused:
        await call
    return str(refused.value.response["error"])


async def needed(call: Awaitable[Any]) -> str:
    """The scope that is missing for this call."""
    with pytest.raises(SlackApiError) as refused:
        await call
    assert refused.value.response["error"] == "missing_scope"
    return str(refused.value.response["needed"])


async def test_tokens_are_told_apart(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """A wrong, a missing and an unfitting token are refused, and a right one names its scopes."""
    answer = await client.auth_test()
    assert (answer["team_id"], answer["bot_id"]) == ("T0SANDBOX", "B0BOT")
    assert "chat:write" in answer.headers["x-oauth-scopes"].split(",")
    assert await refusal(client.auth_test(token="xoxb-wrong")) == "invalid_auth"
    assert await refusal(AsyncWebClient(base_url=slack.api_url).auth_test()) == "not_authed"
    assert await refusal(client.auth_test(token=slack.app_token)) == "not_allowed_token_type"
    assert await refusal(client.apps_connections_open(app_token=slack.bot_token)) == "not_allowed_token_type"


async def test_a_scope_that_is_missing_is_named() -> None:
    """An app without usergroups:read cannot read user groups, and the error names the missing scope."""
    async with SlackSandbox(SandboxWorkspace(scopes=["chat:write"])) as slack:
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
        assert await needed(client.usergroups_list()) == "usergroups:read"


PREFIXES = {"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}
"""The types of conversations, each with the prefix of its scopes."""
SCOPES = tuple(f"{prefix}:{right}" for prefix in PREFIXES.values() for right in ("read", "history"))


@pytest.mark.parametrize("missing", [each for each in SCOPES if each != "mpim:history"])
async def test_each_type_of_conversation_has_its_own_scopes(missing: str) -> None:
    """Without a type's scope the error names it; conversations of every other type can be read."""
    workspace = demo_workspace().add_channel("C0SECRET", "secret", ["U0ADA", "U0BOT"], is_private=True)
    workspace.bot = replace(workspace.bot, scopes=("chat:write", *(set(SCOPES) - {missing})))
    prefix, _, right = missing.partition(":")
    # No group conversation: the stand-in makes none, and can only be asked to list them.
    places = {"channels": "C0GENERAL", "groups": "C0SECRET", "im": workspace.direct_channel("U0ADA").id}
    async with SlackSandbox(workspace, rate_limits=False) as slack:
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
        for kind, of_kind in PREFIXES.items():
            reads, histories = [client.conversations_list(types=kind)], []
            if place := places.get(of_kind):
                root = await client.chat_postMessage(channel=place, text="x")
                reads += [
                    client.conversations_info(channel=place),
                    client.conversations_members(channel=place),
                ]
                histories = [
                    client.conversations_history(channel=place),
                    client.conversations_replies(channel=place, ts=root["ts"]),
                ]
            for of_right, calls in (("read", reads), ("history", histories)):
                for call in calls:
                    if (of_kind, of_right) == (prefix, right):
                        assert await needed(call) == missing
                    else:
                        await call


async def test_the_app_has_the_scopes_of_its_manifest() -> None:
    """With the manifest's scopes the app lists channels and direct messages, and not group conversations."""
    async with SlackSandbox(demo_workspace()) as slack:
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
        await client.conversations_list(types="public_channel,private_channel,im")
        assert await needed(client.conversations_list(types="public_channel,mpim")) == "mpim:read"


async def test_a_message_is_kept_as_slack_keeps_it(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """A posted card comes back escaped, with ids, an author and, on request, its metadata."""
    posted = await client.chat_postMessage(channel="C0REVIEW", text="a < b", blocks=BLOCKS, metadata=METADATA)
    history = await client.conversations_history(channel="C0REVIEW", include_all_metadata=True)
    message = history["messages"][0]
    assert (message["ts"], message["text"], message["metadata"]) == (posted["ts"], "a &lt; b", METADATA)
    assert message["blocks"][0]["text"]["text"] == "a &lt; b"
    assert message["blocks"][0]["block_id"]
    assert {message["bot_id"], message["user"], message["app_id"]} == {"B0BOT", "U0BOT", "A0SIGNOFF"}
    plain = await client.conversations_history(channel="C0REVIEW")
    assert "metadata" not in plain["messages"][0]


async def test_an_update_with_text_alone_removes_the_blocks(client: AsyncWebClient) -> None:
    """chat.update without blocks takes the buttons away and keeps the metadata."""
    ts = (await client.chat_postMessage(channel="C0REVIEW", text="x", blocks=BLOCKS, metadata=METADATA))["ts"]
    await client.chat_update(channel="C0REVIEW", ts=ts, text="done")
    history = await client.conversations_history(channel="C0REVIEW", include_all_metadata=True)
    message = history["messages"][0]
    assert message["text"] == "done"
    assert "blocks" not in message
    assert message["metadata"] == METADATA
    assert "edited" in message


async def test_history_and_replies_are_paged(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """Every message is seen once over all pages: history newest first, a thread oldest first."""
    made = [(await client.chat_postMessage(channel="C0REVIEW", text=f"m{n}"))["ts"] for n in range(7)]
    for n in range(5):
        await client.chat_postMessage(channel="C0REVIEW", text=f"r{n}", thread_ts=made[0])
    seen = [
        [message["ts"] for message in page["messages"]]
        async for page in await client.conversations_history(channel="C0REVIEW", limit=3)
    ]
    assert [len(page) for page in seen] == [3, 3, 1]
    assert [ts for page in seen for ts in page] == made[::-1]
    thread = await client.conversations_replies(channel="C0REVIEW", ts=made[0])
    assert [each["text"] for each in thread["messages"]] == ["m0", "r0", "r1", "r2", "r3", "r4"]
    since = await client.conversations_history(channel="C0REVIEW", oldest=made[4])
    assert [each["ts"] for each in since["messages"]] == made[:4:-1]
    assert await refusal(client.conversations_history(channel="C0REVIEW", cursor="x")) == "invalid_cursor"


Refused = Callable[[AsyncWebClient, str], Awaitable[Any]]
REFUSALS: dict[str, tuple[str, Refused]] = {
    "post nowhere": ("channel_not_found", lambda c, ts: c.chat_postMessage(channel="C0NO", text="x")),
    "post to a hidden channel": (
        "channel_not_found",
        lambda c, ts: c.chat_postMessage(channel="C0OTHER", text="x"),
    ),
    "post to an archive": ("is_archived", lambda c, ts: c.chat_postMessage(channel="C0OLD", text="x")),
    "post nothing": ("no_text", lambda c, ts: c.chat_postMessage(channel="C0REVIEW")),
    "post bad blocks": (
        "invalid_blocks",
        lambda c, ts: c.chat_postMessage(
            channel="C0REVIEW", text="x", blocks=[{"type": "actions", "elements": []}]
        ),
    ),
    "post unreadable blocks": (
        "invalid_blocks_format",
        lambda c, ts: c.chat_postMessage(channel="C0REVIEW", text="x", blocks="nonsense"),
    ),
    "reply to nothing": (
        "thread_not_found",
        lambda c, ts: c.chat_postMessage(channel="C0REVIEW", text="x", thread_ts="1.000000"),
    ),
    "whisper where the bot is not": (
        "not_in_channel",
        lambda c, ts: c.chat_postEphemeral(channel="C0PUBLIC", user="U0ADA", text="x"),
    ),
    "whisper to one who is not there": (
        "user_not_in_channel",
        lambda c, ts: c.chat_postEphemeral(channel="C0REVIEW", user="U0EVE", text="x"),
    ),
    "update nothing": (
        "message_not_found",
        lambda c, ts: c.chat_update(channel="C0REVIEW", ts="1.000000", text="x"),
    ),
    "update another's": (
        "cant_update_message",
        lambda c, ts: c.chat_update(channel="C0REVIEW", ts=ts, text="x"),
    ),
    "update with too much": (
        "msg_too_long",
        lambda c, ts: c.chat_update(channel="C0REVIEW", ts=ts, text="x" * 4001),
    ),
    "delete another's": ("cant_delete_message", lambda c, ts: c.chat_delete(channel="C0REVIEW", ts=ts)),
    "read unseen": ("not_in_channel", lambda c, ts: c.conversations_history(channel="C0PUBLIC")),
    "nobody": ("user_not_found", lambda c, ts: c.users_info(user="U0NO")),
    "no address": ("users_not_found", lambda c, ts: c.users_lookupByEmail(email="no@example.com")),
    "no group": ("no_such_subteam", lambda c, ts: c.usergroups_users_list(usergroup="S0NO")),
    "no trigger": ("invalid_trigger_id", lambda c, ts: c.views_open(trigger_id="1.2.x", view=MODAL)),
    "no view": ("not_found", lambda c, ts: c.views_update(view_id="V0NO", view=MODAL)),
    "a modal for a Home": ("invalid_arguments", lambda c, ts: c.views_publish(user_id="U0ADA", view=MODAL)),
    "no method": ("unknown_method", lambda c, ts: c.api_call("chat.whistle")),
}


@pytest.mark.parametrize(("code", "call"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_refusals_carry_slacks_codes(
    slack: SlackSandbox, client: AsyncWebClient, code: str, call: Refused
) -> None:
    """What Slack refuses is refused with Slack's own code, and recorded as such."""
    of_ada = slack.person("U0ADA").say("C0REVIEW", "mine")["ts"]
    assert await refusal(call(client, of_ada)) == code
    assert slack.calls[-1].outcome == code


async def test_look_ups_answer_with_whole_objects(client: AsyncWebClient) -> None:
    """Members, groups and channels carry the fields by which an app decides who may do what."""
    guest = (await client.users_info(user="U0MALLORY"))["user"]
    assert (guest["is_restricted"], guest["team_id"], guest["tz_offset"]) == (True, "T0SANDBOX", 19800)
    assert (await client.users_lookupByEmail(email="ada@example.com"))["user"]["id"] == "U0ADA"
    assert (await client.usergroups_users_list(usergroup="S0FINANCE"))["users"] == ["U0GRACE", "U0LINUS"]
    channel = (await client.conversations_info(channel="C0REVIEW"))["channel"]
    assert (channel["is_member"], channel["is_ext_shared"], channel["is_archived"]) == (True, False, False)
    assert (await client.conversations_join(channel="C0PUBLIC"))["channel"]["is_member"]
    assert "U0BOT" in (await client.conversations_members(channel="C0PUBLIC"))["members"]
    names = [
        each["name"] async for page in await client.conversations_list(limit=2) for each in page["channels"]
    ]
    assert names == ["general", "agents", "refund-reviews", "public", "old"]
    assert (await client.bots_info(bot="B0BOT"))["bot"]["user_id"] == "U0BOT"


async def test_direct_messages_and_home(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """The app can write to a person, and publish a Home whose hash guards the next version."""
    opened = await client.conversations_open(users="U0ADA")
    assert (await client.chat_postMessage(channel="U0ADA", text="psst"))["channel"] == opened["channel"]["id"]
    first = (await client.views_publish(user_id="U0ADA", view=HOME))["view"]
    second = (await client.views_publish(user_id="U0ADA", view=HOME, hash=first["hash"]))["view"]
    assert second["id"] == first["id"]
    assert (
        await refusal(client.views_publish(user_id="U0ADA", view=HOME, hash=first["hash"])) == "hash_conflict"
    )
    assert slack.home("U0ADA") is not None


async def test_a_file_is_uploaded_in_three_steps(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """files_upload_v2 shares a file in a thread; its bytes can be read with the bot's token alone."""
    root = await client.chat_postMessage(channel="C0REVIEW", text="card")
    uploaded = await client.files_upload_v2(
        channel="C0REVIEW", thread_ts=root["ts"], content='{"a": 1}', filename="arguments.json"
    )
    assert "files" in slack.thread("C0REVIEW", root["ts"])[1]
    async with aiohttp.ClientSession() as session:
        address = uploaded["files"][0]["url_private"]
        async with session.get(address) as closed:
            assert closed.status == 403
        async with session.get(address, headers={"Authorization": f"Bearer {slack.bot_token}"}) as read:
            assert await read.text() == '{"a": 1}'


async def test_reactions_links_and_ephemerals(slack: SlackSandbox, client: AsyncWebClient) -> None:
    """A reaction counts once, a permalink names the message, a whisper is seen by one person alone."""
    ts = (await client.chat_postMessage(channel="C0REVIEW", text="card"))["ts"]
    await client.reactions_add(channel="C0REVIEW", timestamp=ts, name="eyes")
    again = client.reactions_add(channel="C0REVIEW", timestamp=ts, name="eyes")
    assert await refusal(again) == "already_reacted"
    assert (await client.chat_getPermalink(channel="C0REVIEW", message_ts=ts))["permalink"].endswith(
        ts.replace(".", "")
    )
    await client.chat_postEphemeral(channel="C0REVIEW", user="U0GRACE", text="not you")
    assert [each["text"] for each in slack.ephemeral("U0GRACE")] == ["not you"]
    assert slack.ephemeral("U0LINUS") == []
    assert len(slack.messages("C0REVIEW")) == 1


async def test_form_and_json_bodies_mean_the_same(slack: SlackSandbox) -> None:
    """A form with JSON inside and a JSON body post the same message."""
    headers = {"Authorization": f"Bearer {slack.bot_token}"}
    form = {"channel": "C0REVIEW", "text": "x", "blocks": '[{"type": "divider", "block_id": "d"}]'}
    body = {"channel": "C0REVIEW", "text": "x", "blocks": [{"type": "divider", "block_id": "d"}]}
    async with aiohttp.ClientSession(headers=headers) as session:
        for how in ({"data": form}, {"json": body}):
            async with session.post(slack.api_url + "chat.postMessage", **how) as answer:
                assert (await answer.json())["message"]["blocks"] == [{"type": "divider", "block_id": "d"}]
