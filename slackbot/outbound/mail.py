"""E-mail to reviewers: what waits, and a link to its page. Nothing in a message decides anything.

What an agent wrote is one inert line: it ends no header, turns no line around, and no mail program makes a link of it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from urllib.parse import urlsplit

import aiosmtplib

from agent.domain.outbound import OutboundMessage
from agent.domain.request import RequestView
from slackbot.cards.inert import without_links
from slackbot.outbound.failures import RetryLater, Undeliverable
from slackbot.outbound.mail_server import MailServer

TIMEOUT = 10.0

MAX_SUBJECT = 120
MAX_DESCRIPTION = 600


def message(
    notice: OutboundMessage, recipient: str, view: RequestView, url: str, sender: str
) -> EmailMessage:
    """What a reviewer reads. `view` has no secrets any more; the message's id is that of the notice."""
    description = without_links(view.description, MAX_DESCRIPTION)
    until = view.expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    agent, risk = without_links(view.chain, 100), view.risk.value
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = f"Review needed: {without_links(view.description, MAX_SUBJECT)}"
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = f"<{notice.id}@{urlsplit(url).hostname or 'signoff'}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply to this
    mail.set_content(
        f"{description}\n\nAgent: {agent}\nRisk: {risk}\nDecide before: {until}\n\n"
        f"Look at it, and decide if you are a reviewer:\n{url}\n"
    )
    mail.add_alternative(
        "<!doctype html><html><body>"
        f"<p><strong>{escape(description)}</strong></p>"
        f"<p>Agent: {escape(agent)}<br>Risk: {risk}<br>Decide before: {until}</p>"
        f'<p><a href="{escape(url)}">Look at it, and decide if you are a reviewer</a></p>'
        "</body></html>",
        subtype="html",
    )
    return mail


class Mailer:
    """Hands messages in."""

    def __init__(self, server: MailServer, sender: str) -> None:
        self._server = server
        self.sender = sender

    async def send(self, mail: EmailMessage) -> None:
        """Raises RetryLater, or Undeliverable when the server will not take mail to this address."""
        server = self._server
        try:
            await aiosmtplib.send(
                mail,
                hostname=server.host,
                port=server.port,
                username=server.user,
                password=server.password,
                use_tls=server.encrypted,
                start_tls=server.start_tls,
                timeout=TIMEOUT,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            first = error.recipients[0]
            words = f"the mail server refuses the address: {first.code} {first.message}"
            raise (Undeliverable if 500 <= first.code < 600 else RetryLater)(words) from None
        except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
            raise RetryLater(f"the mail server: {str(error) or type(error).__name__}") from error
