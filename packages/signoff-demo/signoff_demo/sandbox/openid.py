"""Sign in with Slack (OpenID Connect), for one person at a time.

Every visitor is signed in as `user` without a prompt, and returns with a single-use code.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from signoff_demo.sandbox.refusal import Json
from signoff_demo.sandbox.workspace import SandboxWorkspace


class OpenIdProvider:
    """`claims` override those of the next tokens, for false statements."""

    def __init__(self, workspace: SandboxWorkspace, client_id: str, client_secret: str) -> None:
        self.client_id, self.client_secret = client_id, client_secret
        self.user = ""
        self.issuer = ""
        self.claims: Json = {}
        self.signing: RSAKey | None = None
        """A key other than the published one, for forged signatures."""
        self.exchanges = 0
        """Calls of the token endpoint."""
        self.held: asyncio.Event | None = None
        """The token endpoint answers once it is set."""
        self._workspace = workspace
        self._key: RSAKey | None = None
        self._codes: dict[str, dict[str, str]] = {}

    def add_routes(self, app: web.Application) -> None:
        """Add before the Web API's route, which would match the token endpoint."""
        app.router.add_get("/openid/connect/authorize", self._authorize)
        app.router.add_get("/openid/connect/keys", self._keys)
        app.router.add_post("/api/openid.connect.token", self._token)

    @property
    def key(self) -> RSAKey:
        if self._key is None:
            self._key = RSAKey.generate_key(2048, {"kid": "sandbox"})
        return self._key

    async def _authorize(self, request: web.Request) -> web.StreamResponse:
        asked = dict(request.query)
        if asked.get("client_id") != self.client_id or asked.get("response_type") != "code":
            raise web.HTTPBadRequest(text="invalid_client_id")
        if "openid" not in asked.get("scope", "").split():
            raise web.HTTPBadRequest(text="invalid_scope")
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        back = urlencode({"code": code, "state": asked.get("state", "")})
        raise web.HTTPFound(f"{asked['redirect_uri']}?{back}")

    async def _token(self, request: web.Request) -> web.Response:
        self.exchanges += 1
        if self.held is not None:
            await self.held.wait()
        form = {**await request.post()}
        asked = self._codes.pop(str(form.get("code")), None)
        if _credentials(request, form) != (self.client_id, self.client_secret):
            return web.json_response({"ok": False, "error": "invalid_client_id"})
        if asked is None or asked["redirect_uri"] != form.get("redirect_uri"):
            return web.json_response({"ok": False, "error": "invalid_code"})
        token = jwt.encode({"alg": "RS256", "kid": "sandbox"}, self._claims(asked), self.signing or self.key)
        return web.json_response(
            {"ok": True, "access_token": "xoxp-sandbox", "token_type": "Bearer", "id_token": token}
        )

    async def _keys(self, _: web.Request) -> web.Response:
        return web.json_response(KeySet([self.key]).as_dict(private=False))

    def _claims(self, asked: dict[str, str]) -> dict[str, Any]:
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": self.client_id,
            "sub": self.user,
            "iat": now,
            "exp": now + 300,
            "nonce": asked.get("nonce"),
            "https://slack.com/team_id": self._workspace.team.id,
            "https://slack.com/user_id": self.user,
            **self.claims,
        }


def _credentials(request: web.Request, form: Mapping[str, object]) -> tuple[str, str]:
    """By HTTP Basic, as Slack's SDKs send them, or from the form."""
    if header := request.headers.get("Authorization"):
        login, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
        return login, password
    return str(form.get("client_id")), str(form.get("client_secret"))
