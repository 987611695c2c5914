"""Signed-in visitors, and CSRF protection. Rights are checked on every request, as for a click."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.datastructures import FormData
from starlette.responses import Response

from agent.domain.errors import Refused
from agent.usecases import sessions
from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.web.http.bodies import read_form
from slackbot.web.http.context import WebContext, web_context

NAME = "signoff_session"
MAX_FIELDS = 1100
"""Per form; in ten lists of a hundred options each, all may be ticked."""


class NotSignedIn(SignoffError):
    """There is no session, or it has expired."""


class ForeignForm(SignoffError):
    """A form of another site, or of an earlier session. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """``token`` proves that a form comes from a page of this person."""

    person: Person
    secret: str = field(repr=False)

    @property
    def token(self) -> str:
        """Derived from the session's secret, which never appears in a page."""
        return hmac.new(self.secret.encode(), b"form", hashlib.sha256).hexdigest()


async def visitor(request: Request) -> Visitor:
    """Raises NotSignedIn, and Refused if the person may not act here (any more) or this is in doubt."""
    ctx = web_context(request)
    secret = request.cookies.get(cookie_name(NAME, ctx), "")
    session = await sessions.find(ctx.db, secret)
    if session is None:
        raise NotSignedIn
    await check_member(ctx, session.person)
    request.state.known = str(session.person)
    return Visitor(session.person, secret)


async def check_member(ctx: WebContext, person: Person) -> None:
    """Raise Refused unless the person is an active member here, or if Slack does not answer."""
    standing = await ctx.slack.directory.identify(person)
    if standing.refusal is not None:
        raise Refused(standing.refusal)


async def submitted_form(request: Request, who: Annotated[Visitor, Depends(visitor)]) -> FormData:
    """Raises ForeignForm, and ProblemRaised (422)."""
    check_origin(request)
    form = await read_form(request, MAX_FIELDS)
    token = form.get("token")
    if not isinstance(token, str) or not hmac.compare_digest(token.encode(), who.token.encode()):
        raise ForeignForm
    return form


def check_origin(request: Request) -> None:
    """Raise ForeignForm unless `Sec-Fetch-Site` or `Origin` says that the page was ours."""
    ctx = request.headers.get("sec-fetch-site")
    if ctx is not None:
        if ctx != "same-origin":
            raise ForeignForm
        return
    ours = {f"{request.url.scheme}://{request.url.netloc}"}
    if (public := web_context(request).public_url) is not None:
        parts = urlsplit(public)
        ours.add(f"{parts.scheme}://{parts.netloc}")
    if request.headers.get("origin") not in ours:
        raise ForeignForm


def is_secure(ctx: WebContext) -> bool:
    """Whether the public URL is https; only then are cookies for secure connections alone."""
    return (ctx.public_url or "").startswith("https://")


def cookie_name(name: str, ctx: WebContext) -> str:
    """Over https, a `__Host-` name: browsers accept it only from this exact host (RFC 6265bis)."""
    return f"__Host-{name}" if is_secure(ctx) else name


def set_cookie(response: Response, ctx: WebContext, name: str, value: str, seconds: int) -> None:
    """HttpOnly. Lax, because people arrive through links; following one changes nothing."""
    response.set_cookie(
        cookie_name(name, ctx),
        value,
        max_age=seconds,
        path="/",
        secure=is_secure(ctx),
        httponly=True,
        samesite="lax",
    )


def delete_cookie(response: Response, ctx: WebContext, name: str) -> None:
    """Have the browser delete a cookie, named and limited as it was when it was set."""
    response.delete_cookie(
        cookie_name(name, ctx), path="/", secure=is_secure(ctx), httponly=True, samesite="lax"
    )


Signed = Annotated[Visitor, Depends(visitor)]
Form = Annotated[FormData, Depends(submitted_form)]
