"""Tokens by shape: a table of the formats that their providers document, or show in their documentation's examples.

Patterns ask for a prefix and fewer characters than a token has, to find cut tokens and longer ones to come. Every
pattern takes linear time, because a regular expression holds the interpreter until it is done. There are none for
entropy or for the word before a value: they would mask order numbers and digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from signoff.masks import TextSpan


@dataclass(frozen=True, slots=True)
class Token:
    """`anchors` are in its texts, `group` is the secret, `apart` from letters, `mixed` with digits."""

    kind: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0
    apart: bool = False
    mixed: bool = False

    def find(self, text: str) -> Iterator[TextSpan]:
        """The text must have one of the anchors."""
        for found in self.pattern.finditer(text):
            start, end = found.span(self.group)
            if self.apart and (_touches(text, start - 1) or _touches(text, end)):
                continue
            if self.mixed and not _MIXED.search(text, start + 3, end):
                continue
            yield TextSpan(start, end, self.kind)


def _touches(text: str, position: int) -> bool:
    return 0 <= position < len(text) and (text[position].isalnum() or text[position] in "_-")


_MIXED = re.compile("[0-9A-Z]")
_GITLAB = (
    *(f"gl{kind}-" for kind in ("agent", "cbt", "dt", "ffct", "ft", "imt", "oas", "pat", "ptt")),
    *(f"gl{kind}-" for kind in ("rt", "rtr", "soat", "wt")),
    "GR1348941",
)

TOKENS = (
    # AWS, "IAM identifiers": AKIA, ASIA, ABIA, ACCA and 16 characters. A3T… are older keys, of which AWS says nothing.
    Token(
        "aws-key",
        ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"),
        re.compile(r"A(?:3T[0-9A-Z]|BIA|CCA|KIA|SIA)[0-9A-Z]{16}"),
        apart=True,
    ),
    # Azure, "Manage account access keys": 512 bits, which stand in Base64 after AccountKey= in a connection string.
    Token("azure-key", ("AccountKey=",), re.compile(r"AccountKey=[0-9A-Za-z+/=]{80,}")),
    # RFC 3986, section 3.2.1: user and password before a host. `url_passwords` finds those that are not encoded.
    Token("url-password", ("://",), re.compile(r"://[^\s:/?#@]*:([^\s:/?#@]+)@"), group=1),
    # Discord, "API reference", the header of a bot: id (in Base64 its digits begin with M, N or O), time, signature.
    Token(
        "discord-token",
        (".",),
        re.compile(r"[MNO][0-9A-Za-z_-]{22,27}\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27,}"),
        apart=True,
    ),
    # GitHub, "Authentication token format updates" (2021): prefix and 36 of [A-Za-z0-9_], up to 255 in future.
    Token(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"gh[oprsu]_[0-9A-Za-z_]{16,}")
    ),
    # GitHub, "About authentication to GitHub": fine-grained tokens.
    Token("github-token", ("github_pat_",), re.compile(r"github_pat_[0-9A-Za-z_]{16,}")),
    # GitLab, "Token prefixes", and of runners GR1348941. Newer ones, which name their cell, end in two short parts.
    Token(
        "gitlab-token",
        _GITLAB,
        re.compile(rf"(?:{'|'.join(_GITLAB)})[0-9A-Za-z_-]{{16,}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{9}})?"),
    ),
    # Slack, "Tokens": xoxb-, xoxp- and others of their family, also rotated ones; those of old are numbers and a word.
    Token(
        "slack-token",
        ("xox", "XOX", "Xox"),
        re.compile(r"(?i:xox[a-z](?:\.xox[a-z])?-(?:[0-9a-z%-]{10,}|[0-9]+-[0-9a-z-]+))"),
    ),
    Token("slack-token", ("xapp-",), re.compile(r"xapp-[0-9]-[0-9A-Za-z-]{10,}")),
    # Slack, "Sending messages using incoming webhooks": who has the address may post.
    Token(
        "slack-token",
        ("/services/", "/workflows/", "/triggers/"),  # names of hosts have no case
        re.compile(r"(?i:https://hooks\.slack(?:-gov)?\.com)/(?:services|workflows|triggers)/[0-9A-Za-z_/]+"),
    ),
    # Stripe, "API keys" and "Webhooks": secret, restricted and publishable keys; signing secrets.
    Token("stripe-key", ("k_live_", "k_test_"), re.compile(r"[prs]k_(?:live|test)_[0-9A-Za-z]{10,}")),
    Token("stripe-key", ("whsec_",), re.compile(r"whsec_[0-9A-Za-z+/=]{16,}")),
    # Square, "OAuth API" and "Access tokens", examples: an application's secret; access tokens of older applications.
    Token("square-secret", ("sq0csp-", "sq0atp-"), re.compile(r"sq0(?:atp|csp)-[0-9A-Za-z_\\-]{20,}")),
    # Telegram, "Bot API", example: 123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11.
    Token("telegram-token", (":",), re.compile(r"[0-9]{6,12}:[0-9A-Za-z_-]{35}"), apart=True),
    # Twilio, "What is a SID": two letters (AC account, SK API key) and 32 hexadecimal digits.
    Token("twilio-key", ("AC", "SK"), re.compile(r"(?:AC|SK)(?:[0-9a-z]{32}|[0-9A-F]{32})"), apart=True),
    # SendGrid, "Create API keys": 69 characters: SG, an id of 22 and a secret of 43, with points between.
    Token("sendgrid-key", ("SG.",), re.compile(r"SG\.[0-9A-Za-z_-]{16,}(?:\.[0-9A-Za-z_-]*)?")),
    # Mailchimp, "Marketing API fundamentals": a key ends in its data centre.
    Token("mailchimp-key", ("-us",), re.compile(r"[0-9a-z]{32}-us[0-9]{1,3}")),
    # PyPI, "API tokens": a macaroon in Base64, of which the version and the first field read AgE.
    Token("pypi-token", ("pypi-AgE",), re.compile(r"pypi-AgE[0-9A-Za-z_-]{16,}")),
    # npm, "npm has a new access token format" (2021): npm_ and 36 letters and digits.
    Token("npm-token", ("npm_",), re.compile(r"npm_[0-9A-Za-z]{24,}")),
    # Google Cloud, "Manage API keys", example: 39 characters.
    Token("google-key", ("AIza",), re.compile(r"AIza[0-9A-Za-z_-]{30,}")),
    # Google, "Using OAuth 2.0", examples of access tokens and of a client's secret.
    Token("google-token", ("ya29.",), re.compile(r"ya29\.[0-9A-Za-z_-]{20,}")),
    Token("google-secret", ("GOCSPX-",), re.compile(r"GOCSPX-[0-9A-Za-z_-]{20,}")),
    # Hugging Face, "User access tokens".
    Token("huggingface-token", ("hf_",), re.compile(r"hf_[0-9A-Za-z]{30,}")),
    # DigitalOcean, "API release notes" (2022): dop_v1_, for OAuth doo_v1_ and dor_v1_, and 64 hexadecimal digits.
    Token("digitalocean-token", ("_v1_",), re.compile(r"do[opr]_v1_[0-9a-f]{32,}")),
    # Artifactory, its API keys (no longer issued) as servers made them: JFrog documents no prefix.
    Token("artifactory-key", ("AKC",), re.compile(r"AKC[0-9A-Za-z]{60,}")),
    # Shopify, "Length of the access token is increasing", "App secret key length has increased" (2020): 38 characters.
    Token(
        "shopify-token",
        ("shpat_", "shpca_", "shppa_", "shpss_"),
        re.compile(r"shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}"),
    ),
    # Databricks, "Personal access tokens", examples.
    Token("databricks-token", ("dapi",), re.compile(r"dapi[0-9a-f]{32}")),
    # Vault, "Tokens": hvs. of a service, hvb. of a batch, hvr. for recovery.
    Token("vault-token", ("hvs.", "hvb.", "hvr."), re.compile(r"hv[brs]\.[0-9A-Za-z_-]{24,}")),
    # age, its specification: Bech32 in capitals.
    Token("age-key", ("AGE-SECRET-KEY-1",), re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{20,}")),
    # RFC 7468 in Base64 once more: "-----BEGIN ", but not of a certificate or a public key.
    Token(
        "private-key",
        ("LS0tLS1CRUdJTi",),
        re.compile(r"LS0tLS1CRUdJTi(?!BDRVJUSUZJQ0FURS|BQVUJMSUMg)[0-9A-Za-z+/=]{20,}"),
    ),
    # OpenAI, Anthropic and others, examples in their references. "task-force-…" and "sk-learn-something" are none.
    Token("api-key", ("sk-",), re.compile(r"(?<![0-9A-Za-z])sk-[0-9A-Za-z_-]{20,}"), mixed=True),
)

_QUOTED_40 = re.compile(r"[\"']([0-9A-Za-z/+]{40})[\"']")
_AWS_WORDS = ("key", "pwd", "pw", "pass", "token")

_URL = re.compile(r"[^\s\"'<>\\]+", re.ASCII)
_USER = re.compile(r"://[^:/?#@]*:(?!\d{1,5}(?:[/?#]|\Z))", re.ASCII)


def url_passwords(text: str) -> Iterator[TextSpan]:
    """A password may have any character but spaces and quotes, even an unencoded "@" or "/"; a port is none."""
    for found in _URL.finditer(text) if "://" in text else ():
        word = found.group()
        user, end = _USER.search(word), word.rfind("@")
        if user is not None and user.end() < end:
            yield TextSpan(found.start() + user.end(), found.start() + end, "url-password")


def aws_secrets(text: str) -> Iterator[TextSpan]:
    """An AWS secret: forty characters in quotes, soon after "aws" and a word for key."""
    for found in _QUOTED_40.finditer(text):
        before = text[max(0, found.start() - 60) : found.start()].lower()
        if "aws" in before and any(word in before for word in _AWS_WORDS):
            yield TextSpan(*found.span(1), "aws-secret")


_CUT = re.compile(r"…|\s?\[… |\n\[cut")
"""Where a text was cut: "…", or a note in brackets."""

CUT_LENGTHS = frozenset({200, 300, 500, 1000, 4000, 20_000})
"""Of texts that were once cut without a sign."""

_BETWEEN_WORDS = " \t\n\r\"'<>“”`"
_LONGEST_WORD = 4096
_MOST_CUTS = 50
_READABLE = 8
"""Characters of a token that may be read."""


@dataclass(frozen=True, slots=True)
class TokenStart:
    """How a token begins, and `rest`, which its other characters are. `apart` from letters, `mixed` with digits."""

    kind: str
    begin: re.Pattern[str]
    rest: re.Pattern[str]
    apart: bool = False
    mixed: bool = False

    def find(self, word: str) -> int:
        """Where a token begins that reaches the word's end, else its length."""
        run = self.rest.match(word[::-1])
        least = len(word) - (run.end() if run else 0)
        for found in self.begin.finditer(word, max(0, least - 40)):
            start = found.start()
            if found.end() < least or (self.apart and _touches(word, start - 1)):
                continue
            if len(word) - start > _READABLE and not (self.mixed and not _MIXED.search(word, found.end())):
                return start
        return len(word)


_WORDS, _DASHED = "[A-Za-z0-9_]*", "[A-Za-z0-9_-]*"

_STARTS = tuple(
    TokenStart(kind, re.compile(begin), re.compile(rest), *how)
    for kind, begin, rest, *how in (
        ("aws-key", "A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA", "[0-9A-Z]{0,16}", True),
        ("github-token", "gh[pousr]_|github_pat_", _WORDS),
        ("gitlab-token", "|".join(_GITLAB), _DASHED),
        ("slack-token", r"(?i:xox)[a-zA-Z](?:\.xox[a-z])?-|xapp-", "[A-Za-z0-9%-]*"),
        (
            "slack-token",
            r"(?i:hooks\.slack(?:-gov)?\.com)/(?:services|workflows|triggers)/",
            "[A-Za-z0-9_/]*",
        ),
        ("stripe-key", "[rsp]k_(?:live|test)_|whsec_", "[A-Za-z0-9+/=]*"),
        ("square-secret", "sq0(?:atp|csp)-", r"[0-9A-Za-z\\_-]*"),
        ("google-key", "AIza", _DASHED),
        ("google-token", r"ya29\.", _DASHED),
        ("google-secret", "GOCSPX-", _DASHED),
        ("npm-token", "npm_", _WORDS, True, True),
        ("pypi-token", "pypi-AgE", _DASHED),
        ("sendgrid-key", r"SG\.", r"[A-Za-z0-9_.-]*", True, True),
        ("huggingface-token", "hf_", _WORDS, True, True),
        ("digitalocean-token", "do[opr]_v1_", "[a-f0-9]*"),
        ("artifactory-key", "AKC", "[a-zA-Z0-9]*", True, True),
        ("shopify-token", "shp(?:at|ca|pa|ss)_", "[a-fA-F0-9]*"),
        ("databricks-token", "dapi", "[a-f0-9]*", True, True),
        ("vault-token", r"hv[brs]\.", _DASHED),
        ("age-key", "AGE-SECRET-KEY-1", "[0-9A-Z]*"),
        ("twilio-key", "AC|SK", "[a-z0-9]*", True, True),
        ("private-key", "LS0tLS1CRUdJTi", "[A-Za-z0-9+/=]*"),
        ("jwt", "eyJ", r"[A-Za-z0-9_.=+/-]*"),
        ("api-key", "sk-(?:ant|proj|svcacct|admin)-", _DASHED, True),
        ("api-key", "sk-", _DASHED, True, True),
    )
)
_ANY_START = re.compile("|".join(f"(?:{token.begin.pattern})" for token in _STARTS))
_URL_START = re.compile(r"://[^\s:/?#@\"'<>\\]*:(?!\d{1,5}(?:[/?#]|\Z))([^\s\"'<>\\@]+)\Z", re.ASCII)
_AZURE_START = re.compile(r"AccountKey=([a-zA-Z0-9+/=]+)\Z")


def cut_tokens(text: str) -> Iterator[TextSpan]:
    """Tokens and passwords that end where their text was cut, of which more than eight characters are left."""
    ends = [found.start() for found in _CUT.finditer(text)][:_MOST_CUTS]
    if len(text) in CUT_LENGTHS:
        ends.append(len(text))
    for end in ends:
        nearest = max(0, end - _LONGEST_WORD)
        word = text[max(nearest, *(text.rfind(sign, nearest, end) + 1 for sign in _BETWEEN_WORDS)) : end]
        for token in _STARTS if _ANY_START.search(word) else ():
            if (start := token.find(word)) < len(word):
                yield TextSpan(end - len(word) + start, end, token.kind)
        for kind, pattern in (("azure-key", _AZURE_START), ("url-password", _URL_START)):
            if found := pattern.search(word):
                yield TextSpan(end - len(found[1]), end, kind)
