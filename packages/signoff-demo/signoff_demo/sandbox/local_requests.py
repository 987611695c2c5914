"""Which requests the sandbox answers: those of programs on this machine, and of its own page."""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable

from aiohttp import web


@web.middleware
async def only_this_machine(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Refuse what a page of another site can make a browser send to any of our routes.

    The Host stops DNS rebinding: the other site's name then leads here. The Origin stops cross-site posts, and scripts
    on other ports of this machine; programs send none.
    """
    if not _is_loopback(request.remote or "") or not _is_loopback(request.url.host or ""):
        return web.Response(status=403, text="only from this machine\n")
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        return web.Response(status=403, text="only from this page\n")
    return await handler(request)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
