"""Who clicked, and what may they do: one place judges people for every path into the system."""

from slackbot.identity.directory import Directory
from slackbot.identity.questions import LookupFailed, RateLimited

__all__ = ["Directory", "LookupFailed", "RateLimited"]
