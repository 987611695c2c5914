"""Sign in with Slack (OpenID Connect Core 1.0, 3.1). `state` and `nonce` bind the app; PKCE would make it public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
from pydantic import SecretStr

from signoff.errors import SignoffError
from signoff.values import Person
from slackbot.slack_api.client import SlackClient, SlackError, SlackRefused, translated

AUTHORIZE = "/openid/connect/authorize"
KEYS = "/openid/connect/keys"
TEAM = "https://slack.com/team_id"
USER = "https://slack.com/user_id"
PATIENCE = 5.0
LEEWAY = 60
"""Seconds by which the clocks may differ."""


class NotVouched(SignoffError):
    """Slack does not validly identify this person; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class OpenID:
    """``origin``: the provider's, `https://slack.com`."""

    origin: str
    client_id: str
    client_secret: SecretStr

    @classmethod
    def at(cls, api_url: str, client_id: str, client_secret: SecretStr) -> OpenID:
        """The provider beside a Web API, as Slack and the stand-in have it."""
        parts = urlsplit(api_url)
        return cls(f"{parts.scheme}://{parts.netloc}", client_id, client_secret)

    def address(self, team_id: str, state: str, nonce: str, back: str) -> str:
        query = {
            "response_type": "code",
            "scope": "openid",
            "client_id": self.client_id,
            "state": state,
            "nonce": nonce,
            "team": team_id,
            "redirect_uri": back,
        }
        return f"{self.origin}{AUTHORIZE}?{urlencode(query)}"

    async def person(self, client: SlackClient, code: str, nonce: str, back: str) -> Person:
        """Raises NotVouched."""
        try:
            answer = await client.openid_connect_token(
                client_id=self.client_id,
                client_secret=self.client_secret.get_secret_value(),
                code=code,
                redirect_uri=back,
                grant_type="authorization_code",
            )
            keys = await self._keys()
        except SlackRefused as error:
            raise NotVouched(f"Slack did not accept the sign-in ({error.code}).") from None
        except SlackError:
            raise NotVouched("Slack did not answer in time.") from None
        return self.read(str(answer.get("id_token") or ""), keys, nonce)

    def read(self, id_token: str, keys: dict[str, Any], nonce: str) -> Person:
        """Check signature and claims of an id token (3.1.3.7). Raises NotVouched."""
        # Most services have no sign-in with Slack, and this loads 10 MB of cryptography.
        from joserfc import jwt  # noqa: PLC0415
        from joserfc.errors import JoseError  # noqa: PLC0415
        from joserfc.jwk import KeySet  # noqa: PLC0415

        must = jwt.JWTClaimsRegistry(
            leeway=LEEWAY,
            iss={"essential": True, "value": self.origin},
            aud={"essential": True, "value": self.client_id},
            exp={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            claims = jwt.decode(id_token, KeySet.import_key_set(keys), algorithms=["RS256"]).claims  # type: ignore[arg-type]
            must.validate(claims)
        except (JoseError, ValueError, KeyError, TypeError):
            raise NotVouched("Slack's identity token could not be verified.") from None
        team, user = claims.get(TEAM), claims.get(USER)
        if not isinstance(team, str) or not isinstance(user, str) or not team or not user:
            raise NotVouched("Slack did not say who you are.")
        return Person(team, user)

    async def _keys(self) -> dict[str, Any]:
        timeout = aiohttp.ClientTimeout(total=PATIENCE)
        with translated("openid keys", self.origin):
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.get(f"{self.origin}{KEYS}") as answer,
            ):
                answer.raise_for_status()
                found: dict[str, Any] = await answer.json(content_type=None)
                return found
