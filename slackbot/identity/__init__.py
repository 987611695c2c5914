"""Who clicked, and what may they do: one place judges people for every path into the system."""

from slackbot.identity.directory import Directory
from slackbot.identity.questions import LookupFailed, RateLimited
from slackbot.identity.sight import (
    Seats,
    channels_of,
    objection_to_see,
    seats_of,
    visible_lines,
    visible_runs,
)

__all__ = [
    "Directory",
    "LookupFailed",
    "RateLimited",
    "Seats",
    "channels_of",
    "objection_to_see",
    "seats_of",
    "visible_lines",
    "visible_runs",
]
