"""Sign in with a personal link from Slack or with Sign in with Slack, and sign out.

Opening a link changes nothing, so previews cannot use it up; the button on its page does. No GET changes stored state,
except the return from Slack with the browser's own `state`.
"""

from __future__ import annotations

import hmac
import secrets
import time
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from agent.usecases import sessions
from agent.usecases.sessions import NewSession
from signoff.values import Person
from slackbot.cards import Names
from slackbot.slack_api.openid import NotVouched, OpenID
from slackbot.web.auth import sign_in_state
from slackbot.web.auth.visitors import (
    NAME,
    Form,
    NotSignedIn,
    Signed,
    check_member,
    check_origin,
    cookie_name,
    delete_cookie,
    set_cookie,
    visitor,
)
from slackbot.web.http.context import WebContext, web_context
from slackbot.web.http.problems import ProblemRaised, retry_later
from slackbot.web.inbox.rendering import PageRoute, local_address, page, redirect_after_form

LINK = "/sign-in/link/{secret}"
WITH_SLACK = "/sign-in/slack"
RETURN = "/sign-in/slack/return"

_TRIP = "signoff_trip"
_WANTED = "signoff_wanted"
_TRIP_SECONDS = sign_in_state.LIFE

router = APIRouter(route_class=PageRoute, include_in_schema=False)


def link_for(public_url: str, secret: str) -> str:
    """Return the address of a personal sign-in link: whoever opens it can sign in as its owner."""
    return public_url + LINK.format(secret=secret)


@router.get("/sign-in")
async def sign_in(request: Request, next: str = "", lost: str = "") -> Response:  # noqa: A002 - its name in the URL
    """Redirect signed-in visitors. ``lost``: a form was lost for lack of a session.

    The browser remembers the wanted page, because a personal link from Slack does not know it.
    """
    ctx, wanted = web_context(request), local_address(next)
    try:
        await visitor(request)
    except NotSignedIn:
        slack = f"{WITH_SLACK}?{urlencode({'next': wanted})}" if ctx.openid and ctx.public_url else None
        answer = page("sign_in.html", slack=slack, lost=bool(lost), commands=ctx.commands)
        set_cookie(answer, ctx, _WANTED, wanted, _TRIP_SECONDS)
        return answer
    return redirect_after_form(wanted)


@router.get(LINK)
async def look_at_link(request: Request, secret: str) -> Response:
    """Show whose sign-in link it is, without using it up; 410 if it works no longer."""
    ctx = web_context(request)
    person = await sessions.link_owner(ctx.db, secret)
    names = await ctx.slack.directory.names([person.user_id]) if person else Names()
    return _link_page(ctx, person, names)


@router.post(LINK)
async def use_link(request: Request, secret: str) -> Response:
    """Go to the page that this browser wanted, or the inbox."""
    check_origin(request)
    ctx = web_context(request)
    person = await sessions.link_owner(ctx.db, secret)
    if person is not None:
        await check_member(ctx, person)
    signed_in = await sessions.use_link(ctx.db, secret)
    if signed_in is None:
        return _link_page(ctx, None, Names())
    wanted = local_address(request.cookies.get(cookie_name(_WANTED, ctx)))
    answer = await _welcome(request, ctx, signed_in, wanted)
    delete_cookie(answer, ctx, _WANTED)
    return answer


@router.get(WITH_SLACK)
async def to_slack(request: Request, next: str = "") -> Response:  # noqa: A002 - its name in the URL
    """Redirect to Slack, with a `state` and `nonce` stored in this browser (OpenID Connect Core, 3.1.2.1)."""
    ctx = web_context(request)
    if ctx.openid is None or ctx.public_url is None:
        raise _not_set_up()
    state = sign_in_state.new_state(_app_secret(ctx.openid), time.time())
    nonce = secrets.token_urlsafe(24)
    there = ctx.openid.address(ctx.slack.team_id, state, nonce, ctx.public_url + RETURN)
    answer = redirect_after_form(there)
    set_cookie(answer, ctx, _TRIP, f"{state}|{nonce}|{local_address(next)}", _TRIP_SECONDS)
    return answer


@router.get(RETURN)
async def from_slack(request: Request, state: str = "", code: str = "") -> Response:
    """Verify Slack's claims and look up the person before signing them in.

    A `state` that we did not make costs no call to Slack: anybody can make a cookie that fits it.
    """
    ctx = web_context(request)
    if ctx.openid is None or ctx.public_url is None:
        raise _not_set_up()
    kept, nonce, wanted = [*request.cookies.get(cookie_name(_TRIP, ctx), "").split("|", 2), "", "", ""][:3]
    ours = sign_in_state.is_valid(state, _app_secret(ctx.openid), time.time())
    if not ours or not code or not hmac.compare_digest(kept.encode(), state.encode()):
        raise _not_signed_in("You left Slack without signing in, or it took longer than ten minutes.")
    vouched = await _vouched_for(ctx, ctx.openid, code, nonce, ctx.public_url + RETURN)
    person = (await ctx.slack.directory.member(vouched)).person
    await check_member(ctx, person)
    answer = await _welcome(
        request, ctx, await sessions.sign_in(ctx.db, person, "openid"), local_address(wanted)
    )
    delete_cookie(answer, ctx, _TRIP)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, who: Signed, _: Form) -> Response:
    """End the visitor's session, delete its cookie, and go to the sign-in page."""
    ctx = web_context(request)
    await sessions.sign_out(ctx.db, who.secret)
    answer = redirect_after_form("/sign-in")
    delete_cookie(answer, ctx, NAME)
    return answer


def _link_page(ctx: WebContext, person: Person | None, names: Names) -> Response:
    status = 410 if person is None else 200
    return page("sign_in_link.html", status, person=person, names=names, commands=ctx.commands)


async def _vouched_for(ctx: WebContext, openid: OpenID, code: str, nonce: str, back: str) -> Person:
    """Ask Slack, for a few browsers at once: clicks use the same connections."""
    if ctx.token_exchanges.locked():
        words = "Many people are signing in at this moment. Please try again."
        raise retry_later("signing-in", "Temporarily unavailable", words, 1)
    async with ctx.token_exchanges:
        try:
            return await openid.person(ctx.slack.client, code, nonce, back)
        except NotVouched as why:
            raise _not_signed_in(str(why)) from None


def _app_secret(openid: OpenID) -> str:
    return openid.client_secret.get_secret_value()


async def _welcome(request: Request, ctx: WebContext, signed_in: NewSession, to: str) -> Response:
    """End the browser's earlier session."""
    await sessions.sign_out(ctx.db, request.cookies.get(cookie_name(NAME, ctx), ""))
    answer = redirect_after_form(to)
    set_cookie(answer, ctx, NAME, signed_in.secret, int(sessions.SESSION_LIFE.total_seconds()))
    return answer


def _not_set_up() -> ProblemRaised:
    words = "Sign in with Slack needs SLACK_CLIENT_ID, SLACK_CLIENT_SECRET and SIGNOFF_PUBLIC_URL."
    return ProblemRaised(404, "not-found", "Not set up", words)


def _not_signed_in(why: str) -> ProblemRaised:
    return ProblemRaised(403, "not-signed-in", "Not signed in", f"{why} Please try again.")
