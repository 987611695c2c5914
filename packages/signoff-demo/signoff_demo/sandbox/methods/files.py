"""Uploads in three steps: get a URL, send the bytes there, complete."""

from __future__ import annotations

import time
from typing import Any

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.methods.registry import method
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace


@method("files.getUploadURLExternal", "files:write", tier=4)
def get_upload_url(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """The server adds `upload_url`."""
    name, length = args.text("filename"), args.number("length", 0)
    if length <= 0:
        raise SandboxRefusal("invalid_arguments", "must be greater than 0 [json-pointer:/length]")
    file_id = workspace.next_id("F")
    workspace.files[file_id] = {
        "id": file_id,
        "name": name,
        "title": name,
        "size": length,
        "snippet_type": args.optional_text("snippet_type"),
        "content": None,
        "completed": False,
    }
    return {"file_id": file_id}


@method("files.completeUploadExternal", "files:write", tier=4)
def complete_upload(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """With a channel, share the files in one message."""
    wanted: Any = args.decoded("files", list)
    if not wanted:
        raise SandboxRefusal("invalid_arguments", "missing required field: files")
    files = [_completed(workspace, each) for each in wanted]
    if args.has("channel_id"):
        channel = workspace.channel(args.text("channel_id"))
        if workspace.bot.user_id not in channel.members:
            raise SandboxRefusal("not_in_channel")
        bot = workspace.bot
        workspace.post(
            channel,
            {
                "text": args.optional_text("initial_comment") or "",
                "files": files,
                "upload": True,
                "user": bot.user_id,
                "bot_id": bot.bot_id,
                "app_id": bot.app_id,
                "display_as_bot": False,
            },
            args.optional_text("thread_ts"),
        )
    return {"files": files}


def _completed(workspace: SandboxWorkspace, wanted: Any) -> Json:
    if not isinstance(wanted, dict) or not isinstance(wanted.get("id"), str):
        raise SandboxRefusal("invalid_arguments", "missing required field: id [json-pointer:/files/0]")
    file = workspace.files.get(wanted["id"])
    if file is None or file["content"] is None or file["completed"]:
        raise SandboxRefusal("file_not_found")
    file |= {"completed": True, "title": wanted.get("title") or file["name"]}
    return {
        "id": file["id"],
        "created": int(time.time()),
        "name": file["name"],
        "title": file["title"],
        "mimetype": "text/plain",
        "filetype": file["snippet_type"] or "text",
        "user": workspace.bot.user_id,
        "size": file["size"],
        "mode": "snippet" if file["snippet_type"] else "hosted",
        "url_private": file["url_private"],
        "url_private_download": file["url_private"],
    }
