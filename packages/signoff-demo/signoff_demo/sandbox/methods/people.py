"""The Web API's methods about members and user groups."""

from __future__ import annotations

import time

from signoff_demo.sandbox.arguments import Arguments
from signoff_demo.sandbox.methods.registry import method
from signoff_demo.sandbox.refusal import Json, SandboxRefusal
from signoff_demo.sandbox.workspace import SandboxWorkspace


@method("users.info", "users:read", tier=4)
def users_info(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `users.info`: a person whom the workspace knows, else the refusal `user_not_found`."""
    return {"user": workspace.member(args.text("user")).as_slack()}


@method("users.list", "users:read", tier=2)
def users_list(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `users.list`: people whose home is this workspace, up to 1,000 a page unless asked otherwise."""
    members = [each.as_slack() for each in workspace.members.values() if each.team_id == workspace.team.id]
    page, metadata = args.page(members, default=1000)
    return {"members": page, "cache_ts": int(time.time()), "response_metadata": metadata}


@method("users.lookupByEmail", "users:read.email", tier=3)
def users_lookup_by_email(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `users.lookupByEmail` about active members of this workspace, else with `users_not_found`."""
    email = args.text("email")
    for member in workspace.members.values():
        if member.email == email and not member.deleted and member.team_id == workspace.team.id:
            return {"user": member.as_slack()}
    raise SandboxRefusal("users_not_found")


@method("usergroups.list", "usergroups:read", tier=2)
def usergroups_list(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `usergroups.list`; disabled groups, members and counts are included only if asked for."""
    groups = [
        group.as_slack(workspace.team.id, args.flag("include_users"), args.flag("include_count"))
        for group in workspace.usergroups.values()
        if args.flag("include_disabled") or not group.disabled
    ]
    return {"usergroups": groups}


@method("usergroups.users.list", "usergroups:read", tier=2)
def usergroups_users_list(workspace: SandboxWorkspace, args: Arguments) -> Json:
    """Answer `usergroups.users.list`; a disabled or unknown group is refused with `no_such_subteam`."""
    group = workspace.usergroups.get(args.text("usergroup"))
    if group is None or (group.disabled and not args.flag("include_disabled")):
        raise SandboxRefusal("no_such_subteam")
    return {"users": list(group.users)}
