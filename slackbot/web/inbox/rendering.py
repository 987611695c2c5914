"""HTML responses: everything escaped, with a CSP that allows only our own files. Errors are pages, too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent.database.errors import DatabaseRefuses, DatabaseUnavailable, OutcomeUnknown
from agent.database.failure_log import log_failure
from agent.domain import verdicts
from agent.domain.errors import DOUBTFUL, NotFound, Refusal, Refused
from agent.domain.together import with_others
from signoff.errors import MalformedArguments
from slackbot.cards.question import answer_in_words
from slackbot.web.auth.visitors import ForeignForm, NotSignedIn
from slackbot.web.http.problems import CONFLICTS, ProblemRaised
from slackbot.web.inbox import assets, row_forms, words

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": browsers would hide from us, too, that a form is our own.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}

SIGN_IN = "/sign-in"


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(words.FILTERS)
    made.filters |= {"answer_words": answer_in_words, "with_others": with_others}
    parts = made.get_template("parts.html").make_module()
    # Lists contain many of these, with few distinct values: render each once.
    made.globals |= {name: cache(getattr(parts, name)) for name in ("badge", "risk")}
    ended = [(each.status.value, each.title) for each in verdicts.ENDED]
    made.globals |= {"outcomes": verdicts.OUTCOMES, "verdicts": verdicts.VERDICTS, "ended": ended}
    made.globals |= {
        "asset": assets.address,
        "who": words.who,
        "people": words.people,
        "row_description": row_forms.DESCRIPTION,
    }
    return made


_templates = _environment()


def page(template: str, status: int = 200, **facts: Any) -> HTMLResponse:
    """Render a template as an HTML response with our security headers; all values are escaped."""
    return HTMLResponse(_templates.get_template(template).render(facts), status, HEADERS)


def redirect_after_form(to: str) -> RedirectResponse:
    """Redirect with 303, so that a reload of the next page does not send the form again."""
    return RedirectResponse(to, 303, HEADERS)


def local_address(address: str | None) -> str:
    """The path if it is one of our pages; otherwise the inbox."""
    if (
        not address
        or len(address) > 500
        or not (address.isascii() and address.isprintable())
        or "\\" in address
        or address.startswith("//")  # `///inbox` has no host for us, but one for browsers
    ):
        return "/inbox"
    parts = urlsplit(address)
    ours = parts.path == "/inbox" or parts.path.startswith("/inbox/")
    return address if ours and not parts.scheme and not parts.netloc and ".." not in parts.path else "/inbox"


class PageRoute(APIRoute):
    """A route whose errors become HTML pages; a visitor who is not signed in is led to the sign-in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def respond(request: Request) -> Response:
            try:
                return await handle(request)
            except NotSignedIn:
                return _to_sign_in(request)
            except ForeignForm:
                return _error_page(403, "Not recorded", FOREIGN_FORM)
            except Refused as refused:
                return _error_page(_status(refused.code), *_about(refused))
            except (
                NotFound,
                MalformedArguments,
                RequestValidationError,
            ):  # unknown paths
                return _error_page(404, "Not found", NOT_FOUND)
            except ProblemRaised as raised:
                return _error_page(raised.status_code, raised.title, raised.detail)
            except OutcomeUnknown:
                return _error_page(503, "Outcome unknown", OUTCOME_UNKNOWN)
            except DatabaseUnavailable as error:
                return _unavailable(error)
            except HTTPException as error:
                return _error_page(error.status_code, "Not understood", str(error.detail))

        return respond


FOREIGN_FORM = (
    "This form came from a page that is no longer valid, so nothing was recorded. "
    "Please go back, load the page again and send it once more."
)
NOT_FOUND = "This page does not exist, or you may not see it."
OUTCOME_UNKNOWN = (
    "The connection to the database was lost, so nobody knows whether this counted. Sending it again is safe."
)
UNAVAILABLE = "The database does not answer in time; nothing was done. Please try again in a moment."


def _to_sign_in(request: Request) -> Response:
    """A fragment cannot show the sign-in page, so htmx navigates the whole page."""
    if request.headers.get("hx-request"):
        back = urlsplit(request.headers.get("hx-current-url", "")).path
        return Response(
            status_code=401,
            headers={**HEADERS, "HX-Redirect": f"{SIGN_IN}?next={quote(local_address(back))}"},
        )
    if request.method == "POST" and request.url.path.startswith("/inbox/"):
        # The input is lost, but its page is known.
        wanted = local_address(urlsplit(request.headers.get("referer", "")).path)
        return redirect_after_form(f"{SIGN_IN}?next={quote(wanted, safe='')}&lost=form")
    query = f"?{request.url.query}" if request.url.query else ""
    wanted = local_address(f"{request.url.path}{query}")
    return redirect_after_form(SIGN_IN if wanted == "/inbox" else f"{SIGN_IN}?next={quote(wanted, safe='')}")


def _status(code: Refusal) -> int:
    if code is Refusal.UNKNOWN_REQUEST:
        return 404
    if code in DOUBTFUL:
        return 503
    return 409 if code in CONFLICTS else 403


def _about(refused: Refused) -> tuple[str, str]:
    titles = {404: "Not found", 503: "Temporarily unavailable", 409: "Already decided", 403: "Not allowed"}
    stale = refused.code is Refusal.STALE_REVISION
    return "Changed in the meantime" if stale else titles[_status(refused.code)], refused.sentence


def _unavailable(error: DatabaseUnavailable) -> Response:
    log_failure("a page failed", error, action="http.failed")
    if isinstance(error, DatabaseRefuses):
        return _error_page(503, "The database refuses", error.sentence)
    return _error_page(503, "Temporarily unavailable", UNAVAILABLE)


def _error_page(status: int, title: str, sentence: str) -> Response:
    return page("sorry.html", status, title=title, sentence=sentence)
