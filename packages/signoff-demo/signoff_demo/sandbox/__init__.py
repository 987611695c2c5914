"""A local Slack for tests and demos: Web API, Socket Mode, signed HTTP and a browser page, on loopback.

It imports nothing else of the project, and the service cannot distinguish it from Slack.
"""

from __future__ import annotations

from signoff_demo.sandbox.delivery_report import DeliveryReport
from signoff_demo.sandbox.elements import NotOnScreen
from signoff_demo.sandbox.faults import Faults
from signoff_demo.sandbox.people_and_places import Channel, Member, UserGroup
from signoff_demo.sandbox.person import InteractionResult, ScreenUser
from signoff_demo.sandbox.rate_limits import RateLimits
from signoff_demo.sandbox.server import SlackSandbox
from signoff_demo.sandbox.signed_http import SignedRequest
from signoff_demo.sandbox.web_api import ApiCall
from signoff_demo.sandbox.workspace import SandboxWorkspace, demo_workspace

__all__ = [
    "ApiCall",
    "Channel",
    "DeliveryReport",
    "Faults",
    "InteractionResult",
    "Member",
    "NotOnScreen",
    "RateLimits",
    "SandboxWorkspace",
    "ScreenUser",
    "SignedRequest",
    "SlackSandbox",
    "UserGroup",
    "demo_workspace",
]
