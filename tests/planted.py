"""Secrets that look real and open nothing. Assembled at run time, so that no scanner reports them as leaks."""

from __future__ import annotations

import base64
import json
import random
import string


def _word(length: int, alphabet: str = string.ascii_letters + string.digits, seed: str = "") -> str:
    return "".join(random.Random(f"{seed}{length}{alphabet}").choices(alphabet, k=length))


def _part(content: dict) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


DIGITS = string.digits
CAPITALS = string.ascii_uppercase + string.digits
SMALL = string.ascii_lowercase + string.digits

PRIVATE_KEY = "\n".join(
    [
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        *(_word(64, seed=str(n)) for n in range(6)),
        _word(30) + "==",
        "-----END RSA " + "PRIVATE KEY-----",
    ]
)
URL_PASSWORD = "h0rse" + "Battery!staple"

SECRETS: dict[str, str] = {
    "aws-key": "AK" + "IA" + _word(16, CAPITALS),
    "github-token": "gh" + "p_" + _word(36),
    "github-token-fine": "github" + "_pat_" + _word(22) + "_" + _word(59),
    "gitlab-token": "gl" + "pat-" + _word(20),
    "slack-bot": "xo" + "xb-" + _word(12, DIGITS) + "-" + _word(12, DIGITS, "b") + "-" + _word(24),
    "slack-app": "xa" + "pp-1-A" + _word(10, CAPITALS) + "-" + _word(13, DIGITS) + "-" + _word(64, SMALL),
    "slack-hook": "https://hooks.slack" + ".com/services/T0" + _word(8, CAPITALS) + "/B0ABCDEFG/" + _word(24),
    "stripe-key": "sk_" + "live_" + _word(24),
    "openai-old": "sk-" + _word(20) + "T3Blbk" + "FJ" + _word(20, seed="o"),
    "openai-project": "sk-" + "proj-" + _word(48, seed="p"),
    "anthropic-key": "sk-" + "ant-api03-" + _word(80, seed="a"),
    "sendgrid-key": "SG" + "." + _word(22) + "." + _word(43),
    "twilio-key": "SK" + _word(32, SMALL),
    "npm-token": "npm" + "_" + _word(36, seed="n"),
    "pypi-token": "pypi-" + "AgEIcHlwaS5vcmc" + _word(80),
    "google-key": "AI" + "za" + _word(35),
    "telegram-token": _word(9, DIGITS) + ":" + _word(35, seed="t"),
    "discord-token": "M" + _word(23) + "." + _word(6) + "." + _word(27),
    "mailchimp-key": _word(32, SMALL) + "-us12",
    "square-secret": "sq0" + "csp-" + _word(43),
    "azure-key": "AccountKey=" + _word(86) + "==",
    "private-key": PRIVATE_KEY,
    "jwt": f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part({'sub': '1', 'admin': True})}.{_word(43)}",
}
"""By kind; each is recognised by its shape alone."""
