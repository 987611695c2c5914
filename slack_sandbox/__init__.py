"""A local Slack for tests and demos: Web API, Socket Mode, signed HTTP and a browser page, on loopback.

It imports nothing else of the project, and the service cannot distinguish it from Slack.
"""

from __future__ import annotations

from slack_sandbox.delivery_report import DeliveryReport
from slack_sandbox.elements import NotOnScreen
from slack_sandbox.faults import Faults
from slack_sandbox.people_and_places import Channel, Member, UserGroup
from slack_sandbox.person import InteractionResult, ScreenUser
from slack_sandbox.rate_limits import RateLimits
from slack_sandbox.server import SlackSandbox
from slack_sandbox.signed_http import SignedRequest
from slack_sandbox.web_api import ApiCall
from slack_sandbox.workspace import SandboxWorkspace, demo_workspace

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
