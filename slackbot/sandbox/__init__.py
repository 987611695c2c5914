"""A local stand-in for Slack: Web API, Socket Mode, signed HTTP and a browser page, on loopback.

It imports nothing else of the project, and the project's service does not know that it talks to it.
"""

from __future__ import annotations

from .delivery_report import Delivered
from .elements import NotOnScreen
from .faults import Faults
from .people_and_places import Channel, Member, UserGroup
from .person import Answer, Person
from .rate_limits import RateLimits
from .server import SlackSandbox
from .signed_http import SignedRequest
from .web_api import Call
from .workspace import Workspace, demo_workspace

__all__ = [
    "Answer",
    "Call",
    "Channel",
    "Delivered",
    "Faults",
    "Member",
    "NotOnScreen",
    "Person",
    "RateLimits",
    "SignedRequest",
    "SlackSandbox",
    "UserGroup",
    "Workspace",
    "demo_workspace",
]
