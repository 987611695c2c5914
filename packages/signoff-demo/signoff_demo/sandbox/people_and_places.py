"""Members, bots, user groups and channels, as Slack describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from zoneinfo import ZoneInfo

from signoff_demo.sandbox.refusal import Json

ENTERPRISE = "E0SANDBOX"
"""The organisation of people with `workspaces`."""


@dataclass(frozen=True)
class Team:
    """A workspace's identity; `domain` is the first part of its address at Slack."""

    id: str
    name: str
    domain: str


@dataclass(frozen=True)
class Bot:
    """A bot user of the app in the workspace, with the scopes that its token has."""

    app_id: str
    user_id: str
    bot_id: str
    name: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Member:
    """`team_id` is the home workspace. It differs from the sandbox's for members of another organisation, and in an
    Enterprise Grid, which has `workspaces` for each of its people.
    """

    id: str
    name: str
    real_name: str
    team_id: str
    email: str = ""
    tz: str = "UTC"
    deleted: bool = False
    is_bot: bool = False
    is_app_user: bool = False
    is_admin: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    is_stranger: bool = False
    bot_id: str | None = None
    app_id: str | None = None
    workspaces: tuple[str, ...] = ()

    def as_slack(self) -> Json:
        """As in `users.info`."""
        zone = datetime.now(ZoneInfo(self.tz))
        offset = zone.utcoffset()
        user: Json = {
            "id": self.id,
            "team_id": self.team_id,
            "name": self.name,
            "deleted": self.deleted,
            "color": "9f69e7",
            "real_name": self.real_name,
            "tz": self.tz,
            "tz_label": zone.tzname(),
            "tz_offset": int(offset.total_seconds()) if offset else 0,
            "profile": self._profile(),
            "is_admin": self.is_admin,
            "is_owner": False,
            "is_primary_owner": False,
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            "is_bot": self.is_bot,
            "is_app_user": self.is_app_user,
            "updated": 1760000000,
            "is_email_confirmed": not self.is_bot,
            "who_can_share_contact_card": "EVERYONE",
        }
        if self.workspaces:
            user["enterprise_user"] = {
                "id": self.id,
                "enterprise_id": ENTERPRISE,
                "enterprise_name": "Sandbox Organisation",
                "is_admin": False,
                "is_owner": False,
                "is_primary_owner": False,
                "teams": list(self.workspaces),
            }
        if self.is_stranger:
            user["is_stranger"] = True
        if self.deleted:
            for gone in ("tz", "tz_label", "tz_offset", "real_name", "color"):
                user.pop(gone)
        return user

    def _profile(self) -> Json:
        profile: Json = {
            "real_name": self.real_name,
            "real_name_normalized": self.real_name,
            "display_name": self.name,
            "display_name_normalized": self.name,
            "team": self.team_id,
            "avatar_hash": "g" + self.id.lower(),
            "status_text": "",
            "status_emoji": "",
            "first_name": self.real_name.split(" ")[0],
            "last_name": " ".join(self.real_name.split(" ")[1:]),
        }
        if self.email and not self.is_bot:
            profile["email"] = self.email
        if self.bot_id:
            profile |= {"bot_id": self.bot_id, "api_app_id": self.app_id, "always_active": True}
        return profile


@dataclass
class UserGroup:
    """A user group with its handle, such as `reviewers`, and the ids of its members."""

    id: str
    handle: str
    name: str
    users: list[str]
    disabled: bool = False

    def as_slack(self, team_id: str, include_users: bool = False, include_count: bool = False) -> Json:
        """As in `usergroups.list`."""
        group: Json = {
            "id": self.id,
            "team_id": team_id,
            "is_usergroup": True,
            "is_subteam": True,
            "name": self.name,
            "description": "",
            "handle": self.handle,
            "is_external": False,
            "date_create": 1760000000,
            "date_update": 1760000000,
            "date_delete": 1760000001 if self.disabled else 0,
            "auto_type": None,
            "auto_provision": False,
            "enterprise_subteam_id": "",
            "created_by": "U0ADA",
            "updated_by": "U0ADA",
            "deleted_by": None,
            "prefs": {"channels": [], "groups": []},
        }
        if include_users:
            group["users"] = list(self.users)
        if include_users or include_count:
            group["user_count"] = len(self.users)
        return group


@dataclass
class Channel:
    """A public or private channel, or a direct message (`is_im`)."""

    id: str
    name: str
    members: set[str] = field(default_factory=set)
    is_private: bool = False
    is_im: bool = False
    is_archived: bool = False
    is_ext_shared: bool = False
    is_pending_ext_shared: bool = False
    created: int = 1760000000

    @property
    def kind(self) -> str:
        """As in the `types` argument."""
        return "im" if self.is_im else "private_channel" if self.is_private else "public_channel"

    @property
    def event_kind(self) -> str:
        """`channel`, `group` or `im`, as in the `channel_type` of an event."""
        return "im" if self.is_im else "group" if self.is_private else "channel"

    def as_slack(self, team_id: str, viewer: str, num_members: bool = False) -> Json:
        """As in `conversations.info`, seen by `viewer`."""
        if self.is_im:
            other = next(iter(self.members - {viewer}), viewer)
            return {
                "id": self.id,
                "created": self.created,
                "is_archived": False,
                "is_im": True,
                "is_org_shared": False,
                "context_team_id": team_id,
                "user": other,
                "is_user_deleted": False,
                "is_open": True,
                "priority": 0,
            }
        channel: Json = {
            "id": self.id,
            "name": self.name,
            "name_normalized": self.name,
            "is_channel": not self.is_private,
            "is_group": False,
            "is_im": False,
            "is_mpim": False,
            "is_private": self.is_private,
            "created": self.created,
            "creator": "U0ADA",
            "is_archived": self.is_archived,
            "is_general": self.name == "general",
            "is_member": viewer in self.members,
            "is_shared": self.is_ext_shared,
            "is_ext_shared": self.is_ext_shared,
            "is_org_shared": False,
            "is_pending_ext_shared": self.is_pending_ext_shared,
            "pending_shared": [],
            "pending_connected_team_ids": [],
            "context_team_id": team_id,
            "shared_team_ids": [team_id],
            "unlinked": 0,
            "previous_names": [],
            "parent_conversation": None,
            "topic": {"value": "", "creator": "", "last_set": 0},
            "purpose": {"value": "", "creator": "", "last_set": 0},
        }
        if num_members:
            channel["num_members"] = len(self.members)
        return channel
