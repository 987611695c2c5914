"""The Web API's methods about messages and reactions."""

from __future__ import annotations

from typing import Any

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.elements import with_ids
from signoff_demo.sandbox.limits import check_blocks, check_metadata
from signoff_demo.sandbox.methods.registry import method
from signoff_demo.sandbox.mrkdwn import escaped_blocks, escaped_mrkdwn
from signoff_demo.sandbox.people_and_places import Channel
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace

TEXT_KEPT = 40_000
"""Slack truncates a posted text here (reference of chat.postMessage)."""
UPDATE_TEXT_LIMIT = 4_000
"""chat.update fails with `msg_too_long` above this."""


@method("chat.postMessage", "chat:write", tier=None)
def post_message(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `chat.postMessage`: store the message in a channel, a thread or a person's conversation."""
    channel = _destination(workspace, args.text("channel"))
    _refuse_absent(workspace, channel, public_allowed=True)
    message = message_content(args)
    thread_ts = args.optional_text("thread_ts") or None
    if thread_ts and args.flag("reply_broadcast"):
        message["subtype"] = "thread_broadcast"
    if (metadata := _metadata(args)) is not None:
        message["metadata"] = metadata
    stored = workspace.post(channel, {**author(workspace), **message}, thread_ts)
    return {"channel": channel.id, "ts": stored["ts"], "message": stored}


@method("chat.update", "chat:write", tier=3)
def update(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `chat.update`: change a message of our bot; others' are refused with `cant_update_message`."""
    channel = workspace.channel(args.text("channel"))
    ts = args.text("ts")
    if len(args.optional_text("text") or "") > UPDATE_TEXT_LIMIT:
        raise SandboxRefusal("msg_too_long")
    _refuse_archived(channel)
    _own(workspace, channel, ts, "cant_update_message")
    kept = workspace.messages.get(channel.id, ts)
    content = message_content(args, old=kept)
    metadata = _metadata(args)
    remove = [name for name in ("blocks", "attachments") if name not in content]
    if metadata == {}:
        remove.append("metadata")
    elif metadata is not None:
        content["metadata"] = metadata
    content["edited"] = {"user": workspace.bot.user_id, "ts": workspace.timestamps.next()}
    stored = workspace.edit(channel, ts, content, remove)
    return {"channel": channel.id, "ts": ts, "text": stored["text"], "message": stored}


@method("chat.postEphemeral", "chat:write", tier=4)
def post_ephemeral(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Not stored, so the API cannot update it."""
    channel = _destination(workspace, args.text("channel"))
    user = args.text("user")
    _refuse_absent(workspace, channel, public_allowed=False)
    if user not in channel.members:
        raise SandboxRefusal("user_not_in_channel")
    content = {**author(workspace), **message_content(args)}
    if args.optional_text("thread_ts"):
        content["thread_ts"] = args.text("thread_ts")
    return {"message_ts": workspace.post_ephemeral(channel, user, content)["ts"]}


@method("chat.delete", "chat:write", tier=3)
def delete(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `chat.delete`: delete a message of our bot; others' are refused with `cant_delete_message`."""
    channel = workspace.channel(args.text("channel"))
    ts = args.text("ts")
    _own(workspace, channel, ts, "cant_delete_message")
    workspace.delete(channel, ts)
    return {"channel": channel.id, "ts": ts}


@method("chat.getPermalink", tier=None)
def get_permalink(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `chat.getPermalink`: a message's address, with its thread if it is a reply."""
    channel = workspace.channel(args.text("channel"))
    ts = args.text("message_ts")
    message = workspace.messages.get(channel.id, ts)
    link = f"https://{workspace.team.domain}.slack.com/archives/{channel.id}/p{ts.replace('.', '')}"
    if message.get("thread_ts", ts) != ts:
        link += f"?thread_ts={message['thread_ts']}&cid={channel.id}"
    return {"channel": channel.id, "permalink": link}


@method("reactions.add", "reactions:write", tier=3)
def reactions_add(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `reactions.add`: the bot, as a member of the channel, adds each reaction only once."""
    channel = workspace.channel(args.text("channel"))
    ts, name, user = args.text("timestamp"), args.text("name").strip(":"), workspace.bot.user_id
    if not name.replace("_", "").replace("-", "").replace("+", "").replace("'", "").isalnum():
        raise SandboxRefusal("invalid_name")
    if user not in channel.members:
        raise SandboxRefusal("not_in_channel")
    before: list[Json] = workspace.messages.get(channel.id, ts).get("reactions", [])
    users = {each["name"]: each["users"] for each in before}
    if user in users.get(name, ()):
        raise SandboxRefusal("already_reacted")
    users[name] = [*users.get(name, ()), user]
    reactions = [{"name": each, "users": who, "count": len(who)} for each, who in users.items()]
    workspace.messages.change(channel.id, ts, {"reactions": reactions})
    workspace.changes.publish({"type": "update", "channel": channel.id, "ts": ts})
    return {}


def message_content(args: Arguments, old: Json | None = None) -> Json:
    """Return `text`, `blocks` and `attachments` as Slack stores them. An update with text but without blocks removes
    the old blocks.

    Raises SandboxRefusal `no_text`, `invalid_blocks`, `invalid_blocks_format`, `msg_blocks_too_long`,
    `invalid_attachments`.
    """
    text = args.optional_text("text")
    blocks = args.decoded("blocks", list, "invalid_blocks_format")
    attachments = args.decoded("attachments", list, "invalid_attachments")
    if not text and not blocks and not attachments and (old is None or blocks is None):
        raise SandboxRefusal("no_text")
    content: Json = {"text": escaped_mrkdwn((text or "")[:TEXT_KEPT])}
    if text is None and old is not None:
        content["text"] = old["text"]
    if blocks:
        check_blocks(blocks, "message")
        content["blocks"] = with_ids(escaped_blocks(blocks))
    if attachments:
        if len(attachments) > 100:
            raise SandboxRefusal("too_many_attachments")
        content["attachments"] = escaped_blocks(attachments)
    elif old is not None and attachments is None and "attachments" in old:
        content["attachments"] = old["attachments"]
    return content


def _metadata(args: Arguments) -> Json | None:
    metadata: Any = args.decoded("metadata", dict, "invalid_metadata_format")
    if metadata:
        check_metadata(metadata)
    return metadata  # type: ignore[no-any-return]


def author(workspace: SandboxWorkspace) -> Json:
    """Return the members that mark a message as the app's: the ids and the profile of its bot."""
    bot, team = workspace.bot, workspace.team
    profile = {
        "id": bot.bot_id,
        "app_id": bot.app_id,
        "user_id": bot.user_id,
        "name": bot.name,
        "icons": {},
        "deleted": False,
        "updated": 1760000000,
        "team_id": team.id,
    }
    return {"user": bot.user_id, "bot_id": bot.bot_id, "app_id": bot.app_id, "bot_profile": profile}


def _destination(workspace: SandboxWorkspace, name: str) -> Channel:
    if name in workspace.members:
        return workspace.direct_channel(name)
    for channel in workspace.channels.values():
        if channel.name and name.removeprefix("#") == channel.name:
            return workspace.channel(channel.id)
    return workspace.channel(name)


def _refuse_archived(channel: Channel) -> None:
    if channel.is_archived:
        raise SandboxRefusal("is_archived")


def _refuse_absent(workspace: SandboxWorkspace, channel: Channel, public_allowed: bool) -> None:
    _refuse_archived(channel)
    may_post_anywhere = (
        public_allowed and not channel.is_private and "chat:write.public" in workspace.bot.scopes
    )
    if workspace.bot.user_id not in channel.members and not may_post_anywhere:
        raise SandboxRefusal("not_in_channel")


def _own(workspace: SandboxWorkspace, channel: Channel, ts: str, refusal: str) -> None:
    message = workspace.messages.get(channel.id, ts)
    if message.get("bot_id") != workspace.bot.bot_id:
        raise SandboxRefusal(refusal)
