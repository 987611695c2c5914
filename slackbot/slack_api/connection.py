"""What others call Slack with, once Slack has identified us."""

from __future__ import annotations

from dataclasses import dataclass

from slackbot.slack_api.client import SlackClient
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.permalinks import Permalinks


@dataclass(frozen=True, slots=True)
class SlackConnection:
    """Exists once Slack has identified us."""

    team_id: str
    directory: Directory
    client: SlackClient
    permalinks: Permalinks
