"""Notices out: signed webhooks, and e-mail with a link. A receiver that fails never holds up a decision."""

from slackbot.notices.mail import Mailer
from slackbot.notices.post import Poster
from slackbot.notices.sender import Sender

__all__ = ["Mailer", "Poster", "Sender"]
