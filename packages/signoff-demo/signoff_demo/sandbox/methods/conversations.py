"""The Web API's methods about conversations."""

from __future__ import annotations

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.methods.registry import method
from signoff_demo.sandbox.people_and_places import Channel
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace

_OF_KIND = {"public_channel": "channels", "private_channel": "groups", "im": "im", "mpim": "mpim"}
_READ = ("channels:read", "groups:read", "im:read", "mpim:read")
_HISTORY = ("channels:history", "groups:history", "im:history", "mpim:history")


@method("conversations.list", *_READ, tier=2)
def conversations_list(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `conversations.list`: public channels, and others that the bot is in, a page at a time."""
    kinds = args.names("types") or ["public_channel"]
    if unknown := set(kinds) - _OF_KIND.keys():
        raise SandboxRefusal("invalid_types", f"unknown types {sorted(unknown)}")
    for kind in kinds:
        _require(workspace, kind, "read")
    bot = workspace.bot.user_id
    channels = [
        channel.as_slack(workspace.team.id, bot, num_members=True)
        for channel in workspace.channels.values()
        if channel.kind in kinds
        and (channel.kind == "public_channel" or bot in channel.members)
        and not (args.flag("exclude_archived") and channel.is_archived)
    ]
    page, metadata = args.page(channels)
    return {"channels": page, "response_metadata": metadata}


@method("conversations.info", *_READ, tier=3)
def conversations_info(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `conversations.info`: a channel as the bot sees it; the needed scope depends on its kind."""
    channel = _known(workspace, args)
    bot = workspace.bot.user_id
    return {"channel": channel.as_slack(workspace.team.id, bot, args.flag("include_num_members"))}


@method("conversations.members", *_READ, tier=4)
def conversations_members(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `conversations.members`: a channel's members by id, a page at a time."""
    page, metadata = args.page(sorted(_known(workspace, args).members))
    return {"members": page, "response_metadata": metadata}


@method("conversations.join", "channels:join", tier=3)
def conversations_join(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `conversations.join`: the bot joins a public channel, with a warning if it is in it already."""
    channel = workspace.channel(args.text("channel"))
    if channel.kind != "public_channel":
        raise SandboxRefusal("method_not_supported_for_channel_type")
    if channel.is_archived:
        raise SandboxRefusal("is_archived")
    bot = workspace.bot.user_id
    answer: Json = {}
    if bot in channel.members:
        answer = {"warning": "already_in_channel", "response_metadata": {"warnings": ["already_in_channel"]}}
    else:
        workspace.join(channel.id, bot)
    return {"channel": channel.as_slack(workspace.team.id, bot), **answer}


@method("conversations.open", "im:write", "mpim:write", tier=3)
def conversations_open(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Group conversations are not supported."""
    if args.has("channel"):
        return {"channel": {"id": workspace.channel(args.text("channel")).id}}
    users = args.names("users")
    if not users:
        raise SandboxRefusal("users_list_not_supplied")
    if len(users) > 1:
        raise SandboxRefusal(
            "not_enough_users" if len(set(users)) == 1 else "method_not_supported_for_channel_type"
        )
    if users[0] == workspace.bot.user_id:
        raise SandboxRefusal("cannot_dm_bot")
    if workspace.member(users[0]).deleted:
        raise SandboxRefusal("user_disabled")
    channel = workspace.direct_channel(users[0])
    shown = channel.as_slack(workspace.team.id, workspace.bot.user_id)
    return {"channel": shown if args.flag("return_im") else {"id": channel.id}}


@method("conversations.history", *_HISTORY, tier=3)
def conversations_history(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Newest first, without thread replies."""
    channel = _readable(workspace, args)
    messages = _between(args, workspace.messages.roots(channel.id))[::-1]
    page, metadata = args.page(messages, largest=999)
    has_more = bool(metadata["next_cursor"])
    answer = {"messages": _without_metadata(args, page), "has_more": has_more, "pin_count": 0}
    return answer | ({"response_metadata": metadata} if has_more else {})


@method("conversations.replies", *_HISTORY, tier=3)
def conversations_replies(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Root first, then replies, oldest first."""
    channel = _readable(workspace, args)
    root, *replies = workspace.messages.thread(channel.id, args.text("ts"))
    page, metadata = args.page([root, *_between(args, replies)])
    has_more = bool(metadata["next_cursor"])
    answer = {"messages": _without_metadata(args, page), "has_more": has_more}
    return answer | ({"response_metadata": metadata} if has_more else {})


def _readable(workspace: SandboxWorkspace, args: Arguments) -> Channel:
    channel = workspace.channel(args.text("channel"))
    _require(workspace, channel.kind, "history")
    if workspace.bot.user_id not in channel.members:
        raise SandboxRefusal("not_in_channel")
    return channel


def _known(workspace: SandboxWorkspace, args: Arguments) -> Channel:
    channel = workspace.channel(args.text("channel"))
    _require(workspace, channel.kind, "read")
    return channel


def _require(workspace: SandboxWorkspace, kind: str, right: str) -> None:
    """Each conversation type has its own scope (Slack's pages on `conversations.info`, `.history` …)."""
    needed, granted = f"{_OF_KIND[kind]}:{right}", workspace.bot.scopes
    if needed not in granted:
        raise SandboxRefusal("missing_scope", needed=needed, provided=",".join(granted))


def _between(args: Arguments, messages: list[Json]) -> list[Json]:
    oldest, latest = args.optional_text("oldest") or "0", args.optional_text("latest") or "inf"
    try:
        low, high = _moment(oldest), _moment(latest)
    except ValueError:
        raise SandboxRefusal("invalid_ts_oldest") from None
    if args.flag("inclusive"):
        return [each for each in messages if low <= _moment(each["ts"]) <= high]
    return [each for each in messages if low < _moment(each["ts"]) < high]


def _moment(ts: str) -> tuple[float, int]:
    # A float cannot distinguish neighbouring timestamps.
    seconds, _, fraction = ts.partition(".")
    return float(seconds), int((fraction or "0").ljust(6, "0")[:6])


def _without_metadata(args: Arguments, messages: list[Json]) -> list[Json]:
    if args.flag("include_all_metadata"):
        return messages
    return [{key: each[key] for key in each if key != "metadata"} for each in messages]
