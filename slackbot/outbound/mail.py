"""E-mail to reviewers. No link decides anything; an agent's text is one inert line and never becomes a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from typing import Any
from urllib.parse import urlsplit

from agent.domain.outbound import OutboundMessage
from agent.domain.request_view import RequestView
from agent.domain.verdicts import VERDICTS
from signoff import formats
from slackbot.cards import scalars
from slackbot.cards.inert import without_links
from slackbot.outbound.failures import RetryLater, Undeliverable
from slackbot.outbound.mail_server import MailServer

TIMEOUT = 10.0

MAX_SUBJECT = 120
MAX_DESCRIPTION = 600
MAX_FACT = 300

NOTHING_YET = (
    "Each link opens the request's page. Nothing is decided before you sign in and confirm it there."
)
Pairs = Sequence[tuple[str, str]]


def message(
    notice: OutboundMessage, recipient: str, view: RequestView, url: str, sender: str
) -> EmailMessage:
    """`view` has its secrets masked."""
    description = without_links(view.description, MAX_DESCRIPTION)
    lines = [
        ("Agent", without_links(view.chain, 100)),
        ("Risk", view.risk.value),
        ("Decide before", formats.moment(view.expires_at)),
        *_named_facts(view),
    ]
    votes = [(f"{VERDICTS[each].button.rstrip('…')} …", f"{url}?go={each}") for each in view.verdicts]
    links = [("Review it", url), *votes]
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = recipient
    mail["Subject"] = f"Review needed: {without_links(view.description, MAX_SUBJECT)}"
    mail["Date"] = format_datetime(datetime.now(UTC))
    mail["Message-ID"] = f"<{notice.id}@{urlsplit(url).hostname or 'signoff'}>"
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office reply
    mail.set_content(_plain(description, lines, links))
    mail.add_alternative(_html(description, lines, links), subtype="html")
    return mail


def _plain(description: str, lines: Pairs, links: Pairs) -> str:
    said = "\n".join(f"{name}: {value}" for name, value in lines)
    led = "\n".join(f"{label}: {link}" for label, link in links)
    return f"{description}\n\n{said}\n\n{NOTHING_YET}\n\n{led}\n"


def _html(description: str, lines: Pairs, links: Pairs) -> str:
    said = "<br>".join(f"{escape(name)}: {escape(value)}" for name, value in lines)
    led = " · ".join(f'<a href="{escape(link)}">{escape(label)}</a>' for label, link in links)
    return (
        f"<!doctype html><html><body><p><strong>{escape(description)}</strong></p>"
        f"<p>{said}</p><p>{escape(NOTHING_YET)}</p><p>{led}</p></body></html>"
    )


def _named_facts(view: RequestView) -> list[tuple[str, str]]:
    """Missing facts are marked, too."""
    found, money = [], view.money_in("facts")
    for path in view.rule.email_facts:
        *above, last = path.split(".")
        around: Any = view.facts
        for step in above:
            around = around.get(step) if isinstance(around, Mapping) else None
        known = isinstance(around, Mapping) and last in around
        words = (
            scalars.words(around[last], money.below(*above, last), scalars.currency_in(around))
            if known
            else "not known"
        )
        found.append(
            (without_links(view.called(path.replace(".", " ")), 100), without_links(words, MAX_FACT))
        )
    return found


class Mailer:
    """A sender of e-mail through the configured server, which it reaches anew for each message."""

    def __init__(self, server: MailServer, sender: str) -> None:
        self._server = server
        self.sender = sender

    async def send(self, mail: EmailMessage) -> None:
        """Raises RetryLater, or Undeliverable if the server refuses the address."""
        import aiosmtplib  # noqa: PLC0415 - most services send no mail

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
