"""The Web API's methods about apps, tokens and blocks."""

from __future__ import annotations

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.limits import check_blocks
from signoff_demo.sandbox.methods.registry import TokenKind, method
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace


@method("api.test", tier=4, token=TokenKind.NONE)
def api_test(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Return the arguments, or the requested error."""
    sent = {name: value for name, value in args.values.items() if name != "token"}
    if args.has("error"):
        raise SandboxRefusal(args.text("error"), args=sent)
    return {"args": sent}


@method("auth.test", tier=4)
def auth_test(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `auth.test`: the workspace, and the bot to which the token belongs."""
    return {
        "url": f"https://{workspace.team.domain}.slack.com/",
        "team": workspace.team.name,
        "user": workspace.bot.name,
        "team_id": workspace.team.id,
        "user_id": workspace.bot.user_id,
        "bot_id": workspace.bot.bot_id,
        "is_enterprise_install": False,
    }


@method("apps.connections.open", tier=None, token=TokenKind.APP)
def apps_connections_open(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """The server adds the `url` with its single-use ticket."""
    return {}


@method("bots.info", "users:read", tier=3)
def bots_info(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `bots.info` about the app's own bot; any other is refused with `bot_not_found`."""
    bot = workspace.bot
    if args.has("bot") and args.text("bot") != bot.bot_id:
        raise SandboxRefusal("bot_not_found")
    info = {
        "id": bot.bot_id,
        "deleted": False,
        "name": bot.name,
        "updated": 1760000000,
        "app_id": bot.app_id,
        "user_id": bot.user_id,
        "icons": {},
    }
    return {"bot": info}


@method("team.info", "team:read", tier=3)
def team_info(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `team.info`: the workspace's name, domain and URL."""
    team = workspace.team
    about = {"id": team.id, "name": team.name, "domain": team.domain, "email_domain": "", "icon": {}}
    return {"team": about | {"url": f"https://{team.domain}.slack.com/"}}


@method("blocks.validate", tier=4, token=TokenKind.NONE)
def blocks_validate(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Post nothing."""
    blocks = args.decoded("blocks", list, "invalid_blocks_format")
    if blocks is None:
        raise SandboxRefusal("invalid_arguments", "missing required field: blocks")
    check_blocks(blocks, "message")
    return {}
