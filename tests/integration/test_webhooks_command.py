"""`signoff webhooks`: add, list, remove, replay, as an operator does it."""

from __future__ import annotations

import asyncio

from agent.database.address import Address
from agent.database.pools import Database
from tests.integration.asking import ask, write
from tests.integration.command import Command

URL = "https://example.com/hook"


def dead_notice(url: str) -> str:
    """A request whose notice to the webhook is given up; returns its id."""

    async def work() -> str:
        async with Database(url) as db:
            await ask(db)
            sql = "UPDATE notice SET state = 'dead', error = 'answered 500' RETURNING id::text"
            return str((await write(db, sql))[0])

    return asyncio.run(work())


def test_from_adding_to_removing(signoff: Command) -> None:
    """The secret is printed once; the list shows what was given up, by id and error; `replay` and `drop`
    take it from there.
    """
    url = signoff.environment["DATABASE_URL"]
    assert Address.read(url)
    assert "there are no webhooks" in signoff("webhooks", "list").said
    added = signoff("webhooks", "add", "ops", URL, "--event", "request.opened")
    assert added.status == 0, added.said
    secret = added.said.split()[-1]
    assert secret.startswith("whsec_")
    notice = dead_notice(url)
    listed = signoff("webhooks", "list").said
    assert URL in listed
    assert "request.opened" in listed
    assert f"given up {notice} ops" in listed
    assert "answered 500" in listed
    assert secret not in listed
    assert "1 will be sent again" in signoff("webhooks", "replay", notice).said
    assert "0 will be sent again" in signoff("webhooks", "replay", "--all").said
    assert f"no notice {notice} was given up" in signoff.is_wrong("webhooks", "drop", notice)[0]
    other = dead_notice(url)
    assert "1 dropped" in signoff("webhooks", "drop", other).said
    assert "given up " + other not in signoff("webhooks", "list").said
    assert "1 dropped" in signoff("webhooks", "drop", "--all").said
    assert "given up " + notice not in signoff("webhooks", "list").said
    assert "ops is removed" in signoff("webhooks", "remove", "ops").said


def test_what_cannot_be_done_is_said_in_one_line(signoff: Command) -> None:
    """A bad address, a taken name, an unknown name and a replay of nothing: one line each, exit code 2."""
    assert (
        "a webhook's address must be https"
        in signoff.is_wrong("webhooks", "add", "x", "http://example.com/")[0]
    )
    assert signoff("webhooks", "add", "ops", URL).status == 0
    assert "already" in signoff.is_wrong("webhooks", "add", "ops", URL)[0]
    assert "no webhook named other" in signoff.is_wrong("webhooks", "remove", "other")[0]
    for command in ("replay", "drop"):
        assert "name one notice that was given up" in signoff.is_wrong("webhooks", command)[0]
    wrong = signoff.is_wrong("webhooks", "list", SIGNOFF_WEBHOOK_NETWORKS="everything")
    assert "SIGNOFF_WEBHOOK_NETWORKS" in wrong[0]


def test_check_names_the_line_of_mail_that_cannot_be_sent(signoff: Command) -> None:
    """`email` in the checkpoints file without a mail server: file, line, and what to set; with one it is fine."""
    text = '[defaults]\napprovers = ["S0FINANCE"]\nemail = ["finance@example.com"]\n'
    (signoff.folder / "checkpoints.toml").write_text(text)
    [line] = signoff.is_wrong("check")
    assert line.startswith(
        'signoff: checkpoints.toml:3: [defaults]: "email" cannot be enforced: set SIGNOFF_SMTP_URL'
    )
    mail = {
        "SIGNOFF_SMTP_URL": "smtps://signoff:secret@mail.example.com",
        "SIGNOFF_SMTP_FROM": "Signoff <signoff@example.com>",
        "SIGNOFF_PUBLIC_URL": "https://signoff.example.com",
    }
    assert signoff("check", **mail).status == 0
    wrong = signoff.is_wrong("check", **(mail | {"SIGNOFF_SMTP_URL": "smtp:/mail"}))
    assert wrong == [
        "signoff: SIGNOFF_SMTP_URL: must be like smtp://mail.example.com:587 or smtps://mail.example.com"
    ]
