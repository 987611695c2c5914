"""Who clicked, and what may they do: one place judges people for every path into the system."""

from slackbot.identity.directory import Directory
from slackbot.identity.questions import LookupFailed, RateLimited
from slackbot.identity.sight import channels_of, objection_to_see

__all__ = ["Directory", "LookupFailed", "RateLimited", "channels_of", "objection_to_see"]
