"""E-mail to reviewers, handed in at a real SMTP server on loopback."""

from __future__ import annotations

import asyncio
import email
import email.policy
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from agent.database.pools import Database
from agent.domain import checkpoints
from agent.domain.errors import PolicyError
from agent.domain.outbound import MAIL
from slackbot.outbound.mail import Mailer
from slackbot.outbound.mail_server import MailServer, sender_address
from tests.integration import alone
from tests.integration.asking import GRACE, ask, ballot, column, reviewer, rows, rule
from tests.integration.web.receiver import PUBLIC_URL, a_sender
from tests.planted import SECRETS

FINANCE, BOSS = "finance@example.com", "boss@example.com"


@dataclass
class Mailbox:
    """A mail server that keeps what it is handed, and refuses addresses that begin with "no"."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    users: list[bytes] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - the library's word
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address.startswith("no"):
            return "550 there is nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        self.mails.append(email.message_from_bytes(envelope.content, policy=email.policy.default))
        return "250 OK"

    def log_in(
        self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: LoginPassword
    ) -> AuthResult:
        self.users.append(data.login)
        return AuthResult(success=data.password == b"p@ss/word")


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    """The mail server."""
    box = Mailbox()
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(box, hostname="mail.test", authenticator=box.log_in, auth_require_tls=False),
        "127.0.0.1",
        0,
    )
    box.port = server.sockets[0].getsockname()[1]
    yield box
    server.close()


async def send(db: Database, mailer: Mailer | None, public_url: str | None = PUBLIC_URL) -> None:
    """Mail what is due."""
    sender = a_sender(db, mailer, public_url)
    sender.look(MAIL)
    await asyncio.gather(*list(sender._tasks.values()))
    await sender.stop(1)


def mailer(mailbox: Mailbox, login: str = "") -> Mailer:
    server = MailServer.read(f"smtp://{login}127.0.0.1:{mailbox.port}")
    return Mailer(server, sender_address("Signoff <signoff@example.com>"))


def texts(mail: EmailMessage) -> tuple[str, str]:
    plain, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert html is not None
    return plain.get_content(), html.get_content()


async def test_each_address_gets_links_that_decide_nothing(database: Database, mailbox: Mailbox) -> None:
    """One message per address of the checkpoint, with description, deadline and links to the page and its two forms."""
    asked = await ask(database, rule(email=(FINANCE, BOSS), risk="high"))
    await send(database, mailer(mailbox))
    assert sorted(str(mail["To"]) for mail in mailbox.mails) == [BOSS, FINANCE]
    page = f"{PUBLIC_URL}/inbox/requests/{asked.request_id}"
    for mail in mailbox.mails:
        assert str(mail["Subject"]) == "Review needed: Refund 1500 for order 0"
        assert str(mail["From"]) == "Signoff <signoff@example.com>"
        assert mail["Auto-Submitted"] == "auto-generated"
        plain, html = texts(mail)
        assert "Risk: high" in plain
        links = [page, f"{page}?go=approve", f"{page}?go=reject"]
        assert [word for word in plain.split() if "://" in word] == links
        assert re.findall('href="([^"]*)"', html) == links
        assert "<form" not in html
    assert await column(database, "SELECT state::text FROM notice") == ["sent", "sent"]


async def test_a_mail_carries_the_facts_that_policy_names(database: Database, mailbox: Mailbox) -> None:
    """`email_facts`, in their order, as the card words them; no other fact, no secret, and no link out of a fact."""
    secret = SECRETS["github-token"]
    facts = {
        "price": 1500,
        "currency": "EUR",
        "owner": {"name": "Ada <b>https://evil.example", "token": secret},
        "stock": 7,
    }
    named = ("price", "owner.name", "owner.token", "refunded_before", "price.more")
    await ask(
        database,
        rule(email=(FINANCE,), email_facts=named, money=("facts.price", "facts.price.more")),
        facts=facts,
    )
    await send(database, mailer(mailbox))
    [mail] = mailbox.mails
    plain, html = texts(mail)
    said = plain.splitlines()
    first = said.index("price: 1,500.00 EUR")
    assert said[first + 1].startswith("owner name: Ada <b>https꞉")
    assert said[first + 3 : first + 5] == ["refunded_before: not known", "price more: not known"]
    assert "<br>owner name: Ada &lt;b&gt;https꞉" in html
    for text in (plain, html):
        assert secret not in text
        assert "https://evil" not in text
        assert "stock" not in text


async def test_a_mail_calls_facts_what_the_card_calls_them(database: Database, mailbox: Mailbox) -> None:
    """An operator's label stays as it is, with its full stop; other names are words."""
    labels = (("price", "Approx. sum"),)
    terms = rule(email=(FINANCE,), email_facts=("price", "paid_by"), labels=labels, layout="plain")
    await ask(database, terms, facts={"price": 1500, "paid_by": "card"})
    await send(database, mailer(mailbox))
    said = texts(mailbox.mails[0])[0].splitlines()
    assert {"Approx. sum: 1500", "Paid by: card"} <= set(said)


async def test_what_an_agent_writes_stays_text(database: Database, mailbox: Mailbox) -> None:
    """A description cannot add a header, a recipient, a link or a tag, and shows no secret."""
    secret = SECRETS["github-token"]
    link = "<a href='https://evil.example'>yes</a> www.evil.example"
    evil = f"Refund\r\nBcc: all@example.com\r\n\r\n{link} \u202e {secret}"
    await ask(database, rule(email=(FINANCE,)), description=evil, agent="x\r\nBcc: y@example.com")
    await send(database, mailer(mailbox))
    [mail] = mailbox.mails
    assert mail["Bcc"] is None
    assert sorted({name.lower() for name in mail.keys()}) == sorted(  # noqa: SIM118 - a message's own keys, repeated ones too
        ["from", "to", "subject", "date", "message-id", "auto-submitted", "mime-version", "content-type"]
        + (["content-transfer-encoding"] if "content-transfer-encoding" in mail else [])
    )
    plain, html = texts(mail)
    for text in (plain, html, str(mail["Subject"])):
        assert secret not in text
        assert "https://evil" not in text
        assert "evil.example" not in text
        assert "\u202e" not in text
    assert "<a href='" not in html


async def test_who_decided_meanwhile_is_not_mailed_about(database: Database, mailbox: Mailbox) -> None:
    """A request that was decided before the mail went out needs nobody any more."""
    asked = await ask(database, rule(email=(FINANCE,)))
    await alone.vote(database, ballot(asked, reviewer(GRACE)))
    await send(database, mailer(mailbox))
    assert mailbox.mails == []


async def test_a_refused_address_is_given_up_alone(database: Database, mailbox: Mailbox) -> None:
    """550 for one address: that notice is dead with the server's words, the other one arrives."""
    await ask(database, rule(email=("nobody@example.com", FINANCE)))
    await send(database, mailer(mailbox))
    notices = await rows(database, "SELECT recipient, state::text, error FROM notice ORDER BY recipient")
    assert notices[0] == (FINANCE, "sent", None)
    assert notices[1][:2] == ("nobody@example.com", "dead")
    assert "550 there is nobody" in notices[1][2]


async def test_a_login_is_used_and_a_wrong_one_is_tried_again(database: Database, mailbox: Mailbox) -> None:
    """User and password of the address, decoded; while they are wrong the mail waits."""
    await ask(database, rule(email=(FINANCE,)))
    await send(database, mailer(mailbox, "signoff:wrong@"))
    assert mailbox.mails == []
    [(state, error)] = await rows(database, "SELECT state::text, error FROM notice")
    assert state == "pending"
    assert "wrong" not in error
    async with database.transaction() as tx:
        await tx.connection.exec_driver_sql("UPDATE notice SET next_at = clock_timestamp()")
    await send(database, mailer(mailbox, "signoff:p%40ss%2Fword@"))
    assert len(mailbox.mails) == 1
    assert mailbox.users[-1] == b"signoff"


async def test_without_a_mail_server_it_waits(database: Database) -> None:
    """Nothing is lost while no mail server is set; the reason is reported."""
    await ask(database, rule(email=(FINANCE,)))
    await send(database, None)
    [(state, error)] = await rows(database, "SELECT state::text, error FROM notice")
    assert (state, "SIGNOFF_SMTP_URL" in error) == ("pending", True)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('email_facts = ["price", 7]', 'checkpoints.toml:4: checkpoint "a": "email_facts" 7 is not'),
        ('email_facts = ["args.price"]', "is an argument; e-mail carries facts only"),
        ('email_facts = ["owner.name"]\nredact = ["facts.owner"]', "would show facts.owner.name"),
        ('email_facts = ["price"]\nemail = []', "needs recipients in"),
    ],
)
def test_facts_that_no_mail_can_carry_are_a_problem_of_the_policy(lines: str, problem: str) -> None:
    """What is no fact, what `redact` hides, and facts for nobody do not load."""
    email = "" if "email = " in lines else 'email = ["finance@example.com"]'
    text = f'[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "a"\n{lines}\n{email}\n'
    with pytest.raises(PolicyError) as caught:
        checkpoints.load(text, filename="checkpoints.toml")
    assert problem in str(caught.value)


def test_mail_that_cannot_be_sent_is_a_problem_of_the_policy() -> None:
    """`email` without a mail server refuses to load, with file and line; with one, or empty, it loads."""
    text = (
        '[defaults]\napprovers = ["S0FINANCE"]\n\n[[checkpoint]]\ncheckpoint_id = "a"\naction_pattern = "a"\n'
    )
    text += 'email = ["finance@example.com"]\n'
    with pytest.raises(
        PolicyError, match=r'checkpoints.toml:7: checkpoint "a": "email" cannot be enforced: set X'
    ):
        checkpoints.load(text, filename="checkpoints.toml", no_mail="set X")
    checkpoints.load(text, filename="checkpoints.toml")
    checkpoints.load(text.replace('"finance@example.com"', ""), filename="checkpoints.toml", no_mail="set X")


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", ("mail.example.com", 587, False, None)),
        ("smtps://a:b@mail.example.com", ("mail.example.com", 465, False, "a")),
        ("smtp://a:b@mail.example.com:2525", ("mail.example.com", 2525, True, "a")),
        ("smtp://a:b@127.0.0.1:25", ("127.0.0.1", 25, None, "a")),
    ],
)
def test_addresses_of_mail_servers(url: str, server: tuple[Any, ...]) -> None:
    """`smtps` is encrypted from the start; a password over `smtp` needs STARTTLS, except to this machine."""
    read = MailServer.read(url)
    start_tls = read.start_tls if not read.encrypted else False
    expected = (server[0], server[1], server[2] if server[3] else None, server[3])
    assert (read.host, read.port, start_tls, read.user) == expected
    assert "password" not in repr(read)


@pytest.mark.parametrize(
    "url", ["mail.example.com", "http://mail.example.com", "smtp://", "smtp://a@b", "smtp://b/x"]
)
def test_what_is_no_mail_server(url: str) -> None:
    """Each is refused before the service starts."""
    with pytest.raises(ValueError, match=r"must be like|needs both"):
        MailServer.read(url)


@pytest.mark.parametrize("text", ["", "signoff", "a@b\r\nBcc: c@d", "<@>"])
def test_what_is_no_sender(text: str) -> None:
    """A sender has an address, and ends no header."""
    with pytest.raises(ValueError, match="must be like"):
        sender_address(text)
