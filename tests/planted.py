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

HEX = string.hexdigits[:16]
URL_SAFE = string.ascii_letters + string.digits + "-_"


def _of(kind: str, length: int, alphabet: str, *prefixes: str) -> list[tuple[str, str]]:
    return [(kind, prefix + _word(length, alphabet, prefix)) for prefix in prefixes]


_GITLAB_KINDS = "agent cbt dt ffct ft imt oas pat ptt rt rtr soat wt"

FORMATS: list[tuple[str, str]] = [
    *_of("aws-key", 16, CAPITALS, "AK" + "IA", "AS" + "IA", "AB" + "IA", "AC" + "CA", "A3" + "TX"),
    *_of("azure-key", 86, string.ascii_letters + "+/", "Account" + "Key="),
    *_of("github-token", 36, string.ascii_letters + DIGITS, *(f"gh{each}" + "_" for each in "pousr")),
    *_of("github-token", 82, string.ascii_letters + DIGITS, "github" + "_pat_"),
    *_of(
        "gitlab-token", 20, URL_SAFE, *(f"gl{each}" + "-" for each in _GITLAB_KINDS.split()), "GR13" + "48941"
    ),
    ("gitlab-token", "gl" + "pat-" + _word(27, URL_SAFE) + ".01." + _word(9, SMALL)),
    *_of(
        "slack-token",
        40,
        string.ascii_letters + DIGITS,
        *(f"xox{each}-" for each in "abceoprs"),
        "XOXB-",
        "Xoxp-",
    ),
    *_of("slack-token", 40, string.ascii_letters + DIGITS, "xox" + "e.xoxp-1-", "xa" + "pp-1-A0-"),
    *_of(
        "slack-token",
        24,
        string.ascii_letters,
        *(
            f"https://hooks.{host}/{path}/T0A/"
            for host in ("slack.com", "slack-gov.com")
            for path in ("services", "workflows", "triggers")
        ),
    ),
    *_of(
        "stripe-key",
        24,
        string.ascii_letters,
        *(f"{each}k_{mode}_" for each in "srp" for mode in ("live", "test")),
    ),
    *_of("stripe-key", 32, string.ascii_letters, "wh" + "sec_"),
    *_of("square-secret", 43, URL_SAFE, "sq0" + "csp-", "sq0" + "atp-"),
    ("telegram-token", "123456:" + _word(35, URL_SAFE)),
    ("telegram-token", "12345678901:" + _word(35, URL_SAFE)),
    *_of("twilio-key", 32, HEX, "AC", "SK"),
    *_of("twilio-key", 32, HEX.upper(), "AC", "SK"),
    ("sendgrid-key", "SG" + "." + _word(22, URL_SAFE) + "." + _word(43, URL_SAFE)),
    ("mailchimp-key", _word(32, HEX) + "-us6"),
    ("mailchimp-key", _word(32, HEX) + "-us21"),
    ("discord-token", "MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + _word(27, URL_SAFE)),
    ("discord-token", "NTAxMjM0NTY3ODkwMTIzNDU2Nw" + ".GaBcDe." + _word(38, URL_SAFE)),
    *_of("pypi-token", 80, URL_SAFE, "pypi-" + "AgEIcHlwaS5vcmc", "pypi-" + "AgENdGVzdC5weXBpLm9yZw"),
    *_of("npm-token", 36, string.ascii_letters, "npm" + "_"),
    *_of("google-key", 35, URL_SAFE, "AI" + "za"),
    *_of("google-token", 60, URL_SAFE, "ya" + "29."),
    *_of("google-secret", 28, URL_SAFE, "GOC" + "SPX-"),
    *_of("huggingface-token", 34, string.ascii_letters, "hf" + "_"),
    *_of("digitalocean-token", 64, HEX, "dop" + "_v1_", "doo" + "_v1_", "dor" + "_v1_"),
    *_of("artifactory-key", 70, string.ascii_letters, "AK" + "C"),
    *_of("shopify-token", 32, HEX, "shp" + "at_", "shp" + "ca_", "shp" + "pa_", "shp" + "ss_"),
    *_of("databricks-token", 32, HEX, "da" + "pi"),
    *_of("vault-token", 24, URL_SAFE, "hv" + "s.", "hv" + "b.", "hv" + "r."),
    *_of("age-key", 58, CAPITALS, "AGE-SECRET" + "-KEY-1"),
    ("private-key", base64.b64encode(PRIVATE_KEY.encode()).decode()),
    *_of("api-key", 48, URL_SAFE, "sk" + "-", "sk" + "-proj-", "sk" + "-ant-api03-"),
]
"""Kind and token: one for each prefix and form that the table of tokens knows."""
