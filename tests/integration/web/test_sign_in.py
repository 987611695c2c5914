"""Signing in and out, and everybody who must not get in."""

# ruff: noqa: F811 - a fixture is imported here and named as a parameter

from __future__ import annotations

import asyncio
import time

import pytest
from joserfc.jwk import RSAKey
from sqlalchemy import text

from slackbot import settings
from slackbot.settings import SettingsError
from slackbot.web.auth import sign_in_state
from slackbot.web.http.context import MAX_EXCHANGES
from slackbot.web.inbox.rendering import local_address
from tests.integration.asking import rows, write
from tests.integration.service.conftest import House, http_house, until  # noqa: F401
from tests.integration.web.visiting import (  # noqa: F401
    ADA,
    GRACE,
    PUBLIC,
    TEAM,
    Porch,
    Visitor,
    open_porch,
    porch,
)


async def test_a_personal_link_signs_in_once(porch: Porch) -> None:
    """The link shows whom it is for; its button signs in, and neither link nor button works a second time."""
    link, visitor = await porch.link("U0GRACE"), porch.stranger()
    for _ in range(3):  # previews and prefetches look, and use nothing up
        assert (await visitor.open(link)).status_code == 200
    assert "@grace" in visitor.words
    answer = await visitor.send(link)
    assert (answer.status_code, answer.headers["location"]) == (303, "/inbox")
    assert (await visitor.open("/inbox")).status_code == 200
    assert "@grace" in visitor.words
    other = porch.stranger()
    assert (await other.send(link)).status_code == 410
    assert (await other.open(link)).status_code == 410
    assert (await other.open("/inbox")).headers["location"] == "/sign-in"


async def test_the_pages_name_the_command_that_works_here(http_house: House) -> None:
    """Beside another installation's, a command has another name."""
    porch = await open_porch(http_house, SIGNOFF_APPROVALS_COMMAND="/eu-approvals")
    visitor = porch.stranger()
    for path in ("/sign-in", "/sign-in/link/used"):
        await visitor.open(path)
        assert "<code>/eu-approvals inbox</code>" in visitor.page
    await visitor.send("/sign-in/link/used")
    assert "<code>/eu-approvals inbox</code>" in visitor.page
    await visitor.browser.aclose()


async def test_of_two_who_use_a_link_at_once_one_gets_in(porch: Porch) -> None:
    """A link is good for one session, however many buttons are pressed at the same moment."""
    link = await porch.link("U0GRACE")
    answers = await asyncio.gather(*(porch.stranger().send(link) for _ in range(5)))
    assert sorted(each.status_code for each in answers) == [303, 410, 410, 410, 410]


async def test_only_hashes_are_kept_and_all_is_on_record(porch: Porch) -> None:
    """No stored row has the secret of a link or of a session; the person's audit chain records signing in and out."""
    link = await porch.link("U0GRACE")
    visitor = porch.stranger()
    await visitor.send(link)
    secret = visitor.browser.cookies["signoff_session"]
    kept = await rows(porch.house.db, "SELECT hash FROM sign_in_link UNION ALL SELECT hash FROM web_session")
    assert len(kept) == 2
    assert not any(each in bytes(row[0]) for row in kept for each in (secret.encode(), link[-43:].encode()))
    await visitor.open("/inbox")
    assert (await visitor.send("/sign-out")).headers["location"] == "/sign-in"
    assert "signoff_session" not in visitor.browser.cookies
    visitor.browser.cookies.set("signoff_session", secret)
    assert (await visitor.open("/inbox")).status_code == 303  # the session is over, whoever kept its cookie
    recorded = "SELECT event, actor FROM audit_event WHERE subject = :subject ORDER BY seq"
    assert await rows(porch.house.db, recorded, subject=f"person:{GRACE}") == [
        ("session.started", f"slack:{GRACE}"),
        ("session.ended", f"slack:{GRACE}"),
    ]


async def test_links_and_sessions_run_out(porch: Porch) -> None:
    """After five minutes a link, after twelve hours a session is worth nothing, by the database's clock."""
    lives = "SELECT round(extract(epoch FROM expires_at - created_at)) FROM "
    visitor, link = await porch.visitor("U0GRACE"), await porch.link("U0ADA")
    assert await porch.house.column(lives + "sign_in_link WHERE user_id = 'U0ADA'") == [300]
    assert await porch.house.column(lives + "web_session") == [43_200]
    async with porch.house.db.transaction() as tx:
        for table in ("sign_in_link", "web_session"):
            await tx.execute(text(f"UPDATE {table} SET expires_at = clock_timestamp()"))
    assert (await porch.stranger().send(link)).status_code == 410
    assert (await visitor.open("/inbox")).status_code == 303


@pytest.mark.parametrize(("user", "words"), [("U0MALLORY", "Guests"), ("U0EVE", "another workspace")])
async def test_guests_and_outsiders_get_no_link(porch: Porch, user: str, words: str) -> None:
    """A person who may not review reads why, and no link is made."""
    answer = await porch.house.slack.person(user).command("/approvals", "inbox", "C0AGENTS")
    assert "sign-in" not in str(answer.response)
    assert await porch.house.column("SELECT hash FROM sign_in_link") == []


async def test_a_deactivated_account_is_out_at_once(porch: Porch) -> None:
    """Each request looks the person up: a session, and a link that was made before, are refused with the reason."""
    visitor, link = await porch.visitor("U0GRACE"), await porch.link("U0GRACE")
    porch.house.slack.workspace.change_member("U0GRACE", deleted=True)

    async def refused() -> bool:
        return (await visitor.open("/inbox")).status_code == 403

    await until(refused)
    assert "deactivated" in visitor.words
    other = porch.stranger()
    assert (await other.send(link)).status_code == 403
    assert "deactivated" in other.words


async def test_without_an_address_the_command_says_which_setting(http_house: House) -> None:
    """Without SIGNOFF_PUBLIC_URL there is no link that anybody could follow; the answer names the setting."""
    opened = await open_porch(http_house, SIGNOFF_PUBLIC_URL="")
    answer = await opened.house.slack.person("U0GRACE").command("/approvals", "inbox", "C0AGENTS")
    assert "SIGNOFF_PUBLIC_URL" in str(answer.response)


async def test_over_https_the_cookie_is_bound_to_this_host(http_house: House) -> None:
    """With an https address the cookie is `__Host-`, Secure, HttpOnly and SameSite; forms from there are ours."""
    opened = await open_porch(http_house, SIGNOFF_PUBLIC_URL="https://signoff.example/")
    answer = await opened.house.slack.person("U0GRACE").command("/approvals", "inbox", "C0AGENTS")
    secret = str(answer.response).split("https://signoff.example/sign-in/link/")[1][:43]
    visitor = opened.stranger()
    answer_to = await visitor.send(f"/sign-in/link/{secret}", headers={"Origin": "https://signoff.example"})
    assert answer_to.status_code == 303
    cookie = answer_to.headers["set-cookie"]
    assert cookie.startswith("__Host-signoff_session=")
    for trait in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=43200"):
        assert trait in cookie
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_forms_of_other_sites_change_nothing(porch: Porch, headers: dict[str, str]) -> None:
    """Another site can neither sign somebody in as somebody else nor sign them out, even with a stolen token."""
    link = await porch.link("U0ADA")
    stranger = porch.stranger()
    assert (await stranger.send(link, headers=headers)).status_code == 403
    visitor = await porch.visitor("U0GRACE")
    await visitor.open("/inbox")
    assert (await visitor.send("/sign-out", headers=headers)).status_code == 403
    assert (await visitor.open("/inbox")).status_code == 200


async def test_a_form_needs_the_token_of_its_session(porch: Porch) -> None:
    """Without a token, or with somebody else's, a form is not taken."""
    ada, grace = await porch.visitor("U0ADA"), await porch.visitor("U0GRACE")
    await ada.open("/inbox")
    grace.page = ada.page
    assert (await grace.send("/sign-out")).status_code == 403
    assert (await grace.send("/sign-out", {"token": ""})).status_code == 403
    assert (await grace.open("/inbox")).status_code == 200


async def test_every_page_is_closed_to_others(porch: Porch) -> None:
    """No page may be framed, cached, or run anything inline; none sends its address to another site."""
    visitor = await porch.visitor("U0GRACE")
    for path in ("/inbox", "/inbox/history", "/sign-in", "/sign-in/link/none", "/inbox/requests/nothing"):
        headers = (await visitor.open(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert "style=" not in visitor.page
        assert "<style" not in visitor.page
        assert " on" + "click" not in visitor.page


@pytest.mark.parametrize(
    "claimed",
    [
        "https://evil.example/inbox",
        "//evil.example/inbox",
        "///inbox",
        "////inbox/requests/1",
        "/inbox/../sign-out",
        "\\\\evil.example",
        "/inboxes",
        "javascript:alert(1)",
        "/inbox\n",
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(claimed: str) -> None:
    """A redirect leads to our own pages or to the inbox."""
    assert local_address(claimed) == "/inbox"
    assert local_address("/inbox/requests/1?x=2") == "/inbox/requests/1?x=2"


async def test_a_fragment_takes_the_page_to_the_sign_in(porch: Porch) -> None:
    """When a session ends while a page is open, the page goes to the sign-in, not a piece of it."""
    answer = await porch.stranger().open(
        "/inbox/waiting", headers={"HX-Request": "true", "HX-Current-URL": "http://x/inbox"}
    )
    assert answer.status_code == 401
    assert answer.headers["hx-redirect"].startswith("/sign-in")
    assert ADA.user_id not in answer.text


async def test_a_form_that_is_sent_after_the_session_has_ended_is_said_to_be_lost(porch: Porch) -> None:
    """The sign-in says that nothing was recorded, and leads back to the page that the form was sent from."""
    asked = await porch.asked()
    page = f"/inbox/requests/{asked}"
    grace = await porch.visitor("U0GRACE")
    await grace.open(page)
    await write(porch.house.db, "UPDATE web_session SET expires_at = created_at")
    sent = await grace.send(f"{page}/reject", {"revision": "1"}, {"Referer": f"{PUBLIC}{page}?x=1"})
    assert sent.status_code == 303
    await grace.open(sent.headers["location"])
    assert "the form that you sent was not recorded" in grace.words
    back = await grace.send(await porch.link("U0GRACE"))
    assert back.headers["location"] == page
    assert (await grace.open(page)).status_code == 200
    assert await porch.house.column("SELECT count(*) FROM vote") == [0]
    elsewhere = await porch.stranger().send(f"{page}/reject", {}, {"Referer": "https://evil.example/inbox/x"})
    assert "evil" not in elsewhere.headers["location"]


async def with_slack(
    house: House, user: str = "U0GRACE", wanted: str = "/inbox/history"
) -> tuple[Porch, Visitor, str]:
    """Somebody who has been at Slack's page and is on the way back, and the path that leads back."""
    opened = await open_porch(
        house,
        SLACK_CLIENT_ID=house.slack.openid.client_id,
        SLACK_CLIENT_SECRET=house.slack.openid.client_secret,
    )
    house.slack.openid.user = user
    return opened, *await at_slack(opened, wanted)


async def at_slack(opened: Porch, wanted: str = "/inbox/history") -> tuple[Visitor, str]:
    """A browser that has been at Slack's page, and the path that leads back."""
    house, visitor = opened.house, opened.stranger()
    await visitor.open(f"/sign-in?next={wanted}")
    assert "Sign in with Slack" in visitor.words
    there = (await visitor.open(f"/sign-in/slack?next={wanted}")).headers["location"]
    assert there.startswith(f"{house.slack.url}/openid/connect/authorize?")
    back = (await opened.stranger().open(there)).headers["location"]
    assert back.startswith(f"{PUBLIC}/sign-in/slack/return?")
    return visitor, back.removeprefix(PUBLIC)


async def test_sign_in_with_slack(http_house: House) -> None:
    """Slack identifies a member, who reaches the page that they wanted; the redirect works once."""
    opened, visitor, back = await with_slack(http_house)
    assert (await visitor.open(back)).headers["location"] == "/inbox/history"
    assert (await visitor.open("/inbox")).status_code == 200
    assert "@grace" in visitor.words
    assert await rows(http_house.db, "SELECT via, user_id FROM web_session") == [("openid", "U0GRACE")]
    assert (await visitor.open(back)).status_code == 403
    assert (await opened.stranger().open(back)).status_code == 403


async def test_sign_in_from_another_workspace_of_the_organisation(http_house: House) -> None:
    """In an Enterprise Grid, Slack names the workspace that a member calls home: the page knows the same person."""
    http_house.slack.workspace.add_member("U0HANA", "hana", team_id="T0SECOND", workspaces=("T0SECOND", TEAM))
    _, visitor, back = await with_slack(http_house, "U0HANA")
    http_house.slack.openid.claims = {"https://slack.com/team_id": "T0SECOND"}
    assert (await visitor.open(back)).headers["location"] == "/inbox/history"
    assert (await visitor.open("/inbox")).status_code == 200
    assert await rows(http_house.db, "SELECT team_id, user_id FROM web_session") == [(TEAM, "U0HANA")]


@pytest.mark.parametrize("wanted", ["//evil.example/inbox", "///inbox"])
async def test_no_way_to_sign_in_leads_elsewhere(http_house: House, wanted: str) -> None:
    """By Slack, by a personal link, and for those who are signed in already, a foreign address is the inbox."""
    opened, visitor, back = await with_slack(http_house, wanted=wanted)
    assert (await visitor.open(back)).headers["location"] == "/inbox"
    assert (await visitor.open(f"/sign-in?next={wanted}")).headers["location"] == "/inbox"
    other = opened.stranger()
    await other.open(f"/sign-in?next={wanted}")
    assert (await other.send(await opened.link("U0ADA"))).headers["location"] == "/inbox"


LIES: dict[str, dict[str, object]] = {
    "another issuer": {"iss": "https://evil.example"},
    "another app": {"aud": "somebody-else"},
    "another trip": {"nonce": "stale"},
    "long ago": {"exp": 1_000_000_000},
    "nobody": {"https://slack.com/user_id": ""},
    "another workspace": {"https://slack.com/team_id": "T0ELSEWHERE"},
    "a guest": {"https://slack.com/user_id": "U0MALLORY"},
    "who has left": {"https://slack.com/user_id": "U0GONE"},
    "a forged signature": {},
}


@pytest.mark.parametrize("lie", LIES)
async def test_what_slack_has_not_said_signs_nobody_in(http_house: House, lie: str) -> None:
    """A token with another issuer, audience, nonce, time, person or signature opens no session."""
    _, visitor, back = await with_slack(http_house)
    http_house.slack.openid.claims = LIES[lie]
    if lie == "a forged signature":
        http_house.slack.openid.signing = RSAKey.generate_key(2048, {"kid": "sandbox"})
    assert (await visitor.open(back)).status_code == 403
    assert await http_house.column("SELECT hash FROM web_session") == []


async def test_the_way_back_belongs_to_the_browser_that_left(http_house: House) -> None:
    """Somebody else's way back, or one without the browser's own `state`, signs nobody in."""
    opened, visitor, back = await with_slack(http_house)
    assert (await opened.stranger().open(back)).status_code == 403
    assert (await visitor.open(back.replace("state=", "state=x"))).status_code == 403
    assert (await visitor.open("/sign-in/slack/return")).status_code == 403
    assert await http_house.column("SELECT hash FROM web_session") == []


@pytest.mark.parametrize("made", ["freely", "by another app", "long ago"])
async def test_a_way_back_that_we_did_not_open_costs_slack_no_call(http_house: House, made: str) -> None:
    """A `state` that is made up or has expired is refused before Slack is asked, whatever the cookie says."""
    opened, _, _ = await with_slack(http_house)
    secret, now = http_house.slack.openid.client_secret, time.time()
    state = {
        "freely": "s",
        "by another app": sign_in_state.new_state("another secret", now),
        "long ago": sign_in_state.new_state(secret, now - sign_in_state.LIFE - 1),
    }[made]
    stranger = opened.stranger()
    stranger.browser.cookies.set("signoff_trip", f"{state}|n|/inbox")
    assert (await stranger.open(f"/sign-in/slack/return?state={state}&code=c")).status_code == 403
    assert http_house.slack.openid.exchanges == 0


async def test_few_sign_ins_ask_slack_at_once(http_house: House) -> None:
    """While four wait for Slack, a fifth is told to try again without a call, and gets in once they are through."""
    opened, visitor, back = await with_slack(http_house)
    slack = http_house.slack.openid
    others = [await at_slack(opened) for _ in range(MAX_EXCHANGES - 1)]
    late, way = await at_slack(opened)
    slack.held = asyncio.Event()
    async with asyncio.TaskGroup() as waiting:
        going = [waiting.create_task(who.open(path)) for who, path in [(visitor, back), *others]]

        async def all_wait() -> bool:
            return slack.exchanges == MAX_EXCHANGES

        await until(all_wait)
        assert (await late.open(way)).status_code == 503
        assert "try again" in late.words
        assert slack.exchanges == MAX_EXCHANGES
        slack.held.set()
    assert [each.result().status_code for each in going] == [303] * MAX_EXCHANGES
    assert (await late.open(way)).headers["location"] == "/inbox/history"


async def test_sign_in_with_slack_needs_both_settings(porch: Porch) -> None:
    """One of the two settings alone refuses to start, and without them the page offers only the link."""
    with pytest.raises(SettingsError, match="SLACK_CLIENT_ID and SLACK_CLIENT_SECRET"):
        settings.read({"SLACK_CLIENT_ID": "1.2"})
    visitor = porch.stranger()
    await visitor.open("/sign-in")
    assert "Sign in with Slack" not in visitor.words
    assert (await visitor.open("/sign-in/slack")).status_code == 404
