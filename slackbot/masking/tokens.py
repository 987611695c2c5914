"""Tokens by shape: the token plugins of `detect-secrets`, and what they leave open.

Only the plugins' patterns are used: `analyze_string` returns values without places, and only the group of a pattern
with a group (of a GitHub token "ghp"). Left out are plugins that would mask order numbers and digests (entropy, a
preceding word), Artifactory (twelve letters after "AP"), and quadratic patterns (npm, SoftLayer, Cloudant): a regular
expression holds the interpreter until it is done, so every pattern takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.basic_auth import BasicAuthDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.telegram_token import TelegramBotTokenDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

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
_AWS = ("A3T", "ABIA", "ACCA", "AKIA", "ASIA")
_GITLAB = (
    "glpat-",
    "gldt-",
    "glft-",
    "glsoat-",
    "glrt-",
    "GR1348941",
    "glcbt-",
    "glimt-",
    "glptt-",
    "glagent-",
)

# kind, plugin, anchors, group of the secret, apart
_PLUGINS = (
    ("azure-key", AzureStorageKeyDetector(), ("AccountKey=",), 0, False),
    ("url-password", BasicAuthDetector(), ("://",), 1, False),
    ("discord-token", DiscordBotTokenDetector(), (".",), 0, True),
    ("github-token", GitHubTokenDetector(), ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), 0, False),
    ("gitlab-token", GitLabTokenDetector(), (*_GITLAB, "gloas-"), 0, False),
    ("mailchimp-key", MailchimpDetector(), ("-us",), 0, False),
    ("pypi-token", PypiTokenDetector(), ("pypi-",), 0, False),
    ("sendgrid-key", SendGridDetector(), ("SG.",), 0, False),
    ("slack-token", SlackDetector(), ("xox", "XOX", "Xox", "hooks.slack.com"), 0, False),
    ("square-secret", SquareOAuthDetector(), ("sq0csp-",), 0, False),
    ("stripe-key", StripeDetector(), ("k_live_",), 0, False),
    ("telegram-token", TelegramBotTokenDetector(), (":",), 0, True),
    ("twilio-key", TwilioKeyDetector(), ("AC", "SK"), 0, True),
)

# kind, anchors, pattern; lenient in length, to find cut tokens
_OWN = (
    ("github-token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{16,}"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9_]{16,}"),
    ("gitlab-token", _GITLAB[:5], r"gl(?:pat|dt|ft|soat|rt)-[A-Za-z0-9_-]{16,}"),
    ("slack-token", ("xox",), r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9%-]{10,}"),
    ("slack-token", ("xapp-",), r"xapp-\d-[A-Za-z0-9-]{10,}"),
    ("stripe-key", ("k_live_", "k_test_"), r"[rsp]k_(?:live|test)_[0-9a-zA-Z]{10,}"),
    ("stripe-key", ("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}"),
    ("google-key", ("AIza",), r"AIza[0-9A-Za-z_-]{30,}"),
    ("google-token", ("ya29.",), r"ya29\.[0-9A-Za-z_-]{20,}"),
    ("google-secret", ("GOCSPX-",), r"GOCSPX-[0-9A-Za-z_-]{20,}"),
    ("npm-token", ("npm_",), r"npm_[A-Za-z0-9]{24,}"),
    ("pypi-token", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{16,}"),
    ("sendgrid-key", ("SG.",), r"SG\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]*)?"),
    ("huggingface-token", ("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    ("digitalocean-token", ("_v1_",), r"do[opr]_v1_[a-f0-9]{32,}"),
    ("artifactory-key", ("AKC",), r"AKC[a-zA-Z0-9]{60,}"),
    ("shopify-token", ("shp",), r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("databricks-token", ("dapi",), r"dapi[a-f0-9]{32}"),
    ("vault-token", ("hvs.",), r"hvs\.[A-Za-z0-9_-]{24,}"),
    ("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
    ("private-key", ("LS0tLS1CRUdJTi",), r"LS0tLS1CRUdJTi(?!BDRVJUSUZJQ0FURS|BQVUJMSUMg)[A-Za-z0-9+/=]{20,}"),
)

_AWS_ID, _ = AWSKeyDetector().denylist  # the other one takes a second for 100 KB of "awskey": `aws_secrets`
_QUOTED_40 = re.compile(r"[\"']([0-9A-Za-z/+]{40})[\"']")
_AWS_WORDS = ("key", "pwd", "pw", "pass", "token")

TOKENS: tuple[Token, ...] = (
    Token("aws-key", _AWS, _AWS_ID, apart=True),
    *(
        Token(kind, anchors, pattern, group, apart)
        for kind, plugin, anchors, group, apart in _PLUGINS
        for pattern in plugin.denylist
    ),
    *(Token(kind, anchors, re.compile(pattern)) for kind, anchors, pattern in _OWN),
    # Of OpenAI, Anthropic and others. Excludes "task-force-…" and "sk-learn-something".
    Token("api-key", ("sk-",), re.compile(r"(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}"), mixed=True),
)

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
        ("gitlab-token", "|".join((*_GITLAB, "gloas-")), _DASHED),
        ("slack-token", r"(?i:xox)[a-zA-Z](?:\.xox[a-z])?-|xapp-", "[A-Za-z0-9%-]*"),
        ("slack-token", r"hooks\.slack\.com/(?:services|workflows|triggers)/", "[A-Za-z0-9_/]*"),
        ("stripe-key", "[rsp]k_(?:live|test)_|whsec_", "[A-Za-z0-9+/=]*"),
        ("square-secret", "sq0csp-", r"[0-9A-Za-z\\_-]*"),
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
        ("vault-token", r"hvs\.", _DASHED),
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
