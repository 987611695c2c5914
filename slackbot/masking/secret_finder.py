"""Secrets in a text: tokens by their shape, whole private keys, and what stands behind a secret's name.

All of it takes time in proportion to the text, and looks at the clock between steps: what could not be looked
through in time counts as secret from end to end.
"""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from copy import copy

from agent.domain.repetitions import repetitions
from signoff.masks import NAMED, NOT_SCANNED, TextSpan, is_secret_name, redact_by_name
from slackbot.masking.tokens import TOKENS, aws_secrets

BUDGET = 0.5
"""Seconds for everything that one card, answer or line shows."""

SHORT = 2000
SURE = 20_000
"""Characters of short texts that are looked through even when the time is up: a busy machine shows lists, too."""

FEW = 8
"""Hidden values at most, for that to take no longer than a fraction of a second."""

LONGEST = 1_000_000
"""Characters of one text that are looked through; the rest is masked unread."""

Clock = Callable[[], float]


class SecretFinder:
    """Finds secrets in texts, until its time is up. `hidden` values are found as well, wherever they are said.

    `assigned`: what stands behind a name like `api_key` is taken for a secret, whatever it looks like. `sure`: so many
    characters of short texts are looked through however late it is.
    """

    def __init__(
        self,
        hidden: Sequence[tuple[str, str]] = (),
        *,
        budget: float = BUDGET,
        clock: Clock = time.monotonic,
        assigned: bool = True,
        sure: int = 0,
    ) -> None:
        self._looks = (private_keys, web_tokens, aws_secrets, *([assignments] if assigned else []))
        self._hidden = tuple(dict.fromkeys(hidden))
        self._clock = clock
        self._until = clock() + budget
        self._sure = sure

    def also(self, hidden: Sequence[tuple[str, str]]) -> SecretFinder:
        """One that looks for these as well, within the same time."""
        other = copy(self)
        other._hidden = tuple(dict.fromkeys((*self._hidden, *hidden)))  # noqa: SLF001 - its own kind
        return other

    def __call__(self, text: str) -> Sequence[TextSpan]:
        """Where this text has secrets; all of it, when there was no time to look."""
        if not text or text.isspace():
            return ()
        looked_at = text if len(text) <= LONGEST else text[:LONGEST]
        found: list[TextSpan] = []
        sure = len(text) <= min(SHORT, self._sure) and len(self._hidden) <= FEW
        self._sure -= len(text) if sure else 0
        if not sure and self._is_late():
            return [TextSpan(0, len(text), NOT_SCANNED)]
        for span in self._steps(looked_at):
            if not sure and self._is_late():
                return [TextSpan(0, len(text), NOT_SCANNED)]
            if span is not None:
                found.append(span)
        if len(text) > LONGEST:
            found.append(TextSpan(LONGEST, len(text), NOT_SCANNED))
        return found

    def _is_late(self) -> bool:
        return self._clock() > self._until

    def _steps(self, text: str) -> Iterator[TextSpan | None]:
        """Spans, and `None` whenever a piece of work is done."""
        for token in TOKENS:
            for anchor in token.anchors:
                if anchor in text:
                    yield from token.find(text)
                    yield None
                    break
        for look in self._looks:
            yield from look(text)
            yield None
        for value in (*self._hidden, *_named_in_json(text)):
            yield from repetitions(text, (value,))
            yield None


def _named_in_json(text: str) -> Sequence[tuple[str, str]]:
    """What keys make a secret in a text that is JSON, however deep: `"tokens": ["…", "…"]`."""
    if text.lstrip()[:1] not in ("{", "["):
        return ()
    try:
        return redact_by_name(json.loads(text)).hidden
    except (ValueError, RecursionError):
        return ()


def everything(text: str) -> Sequence[TextSpan]:
    """Masks every text from end to end: what is left when nobody could look."""
    return [TextSpan(0, len(text), NOT_SCANNED)] if text else ()


# ---------------------------------------------------------------- private keys
_KEY = r"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?"
_BEGIN = re.compile(rf"(?:-{{2,5}} ?)?BEGIN {_KEY}(?: ?-{{2,5}})?")
_END = re.compile(rf"(?:-{{2,5}} ?)?END {_KEY}(?: ?-{{2,5}})?")
_PUTTY = re.compile(r"PuTTY-User-Key-File-\d")
_PUTTY_END = re.compile(r"Private-(?:MAC|Hash): ?[0-9a-f]*")
# What may stand in a key's text: base64, line breaks (also escaped ones) and headers such as "DEK-Info: AES,1F".
_BODY = re.compile(r"[A-Za-z0-9+/=:,\-\s\\]*")
_NOT_BODY = re.compile(r"[^A-Za-z0-9+/=:,\-\s\\]")
_LONGEST_KEY = 20_000


def private_keys(text: str) -> Iterator[TextSpan]:
    """From BEGIN to END, whatever is between; a key whose beginning or end was cut off as far as it goes."""
    if "PRIVATE KEY" in text:
        yield from _armoured(text)
    if "PuTTY-User-Key-File-" in text:
        last = max((found.end() for found in _PUTTY_END.finditer(text)), default=0)
        for begin in _PUTTY.finditer(text):
            yield TextSpan(begin.start(), last if last > begin.start() else len(text), "private-key")


def _armoured(text: str) -> Iterator[TextSpan]:
    ends = [found.span() for found in _END.finditer(text)]
    done = 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        nearest = bisect_left(ends, begin.span())
        body = _BODY.match(text, begin.end())
        done = ends[nearest][1] if nearest < len(ends) else body.end() if body else begin.end()
        yield TextSpan(begin.start(), done, "private-key")
    for start, end in ends:
        if start >= done:
            head = text[max(0, start - _LONGEST_KEY, done) : start]
            foreign = max((found.end() for found in _NOT_BODY.finditer(head)), default=0)
            yield TextSpan(start - len(head) + foreign, end, "private-key")
            done = end


# ---------------------------------------------------------------- JSON Web Tokens
_RUN = re.compile(r"[A-Za-z0-9_\-.=+/]{20,}")
_OPENAI = "T3BlbkFJ"  # "OpenAI" in base64, in the middle of every older key of theirs


def web_tokens(text: str) -> Iterator[TextSpan]:
    """JSON Web Tokens, signature included, also cut ones; and keys of OpenAI's that stick to other words."""
    if "eyJ" not in text and _OPENAI not in text:
        return
    for run in _RUN.finditer(text):
        word = run.group()
        start = word.find("eyJ")
        if start >= 0 and "." in word[start + 10 :]:
            yield TextSpan(run.start() + start, run.start() + len(word.rstrip(".")), "jwt")
        start = word.find("sk-") if _OPENAI in word else -1
        if start >= 0:
            yield TextSpan(run.start() + start, run.end(), "api-key")


# ---------------------------------------------------------------- what a name makes a secret
_STEMS = (
    "authorization",
    "bearer",
    "connection",
    "cookie",
    "credential",
    "cvc",
    "cvv",
    "jwt",
    "key",
    "otp",
    "pass",
    "pw",
    "secret",
    "sig",
    "token",
)
_BEFORE_KEY = ("access", "api", "auth", "encryption", "master", "private", "secret", "signing")
_OF_A_NAME = re.compile(r"[\w.-]{0,60}", re.ASCII)
_ASSIGNED = re.compile(
    r"(?P<close>\\{0,3}[\"']|)\]?(?P<sign>\s{0,3}(?:=>|:=|==?|:)\s{0,3})(?P<open>\\{0,3}[\"']|)", re.ASCII
)
_BARE = re.compile(r"[^\s\"'`<>,;&|(){}\[\]\\]+")
_WORD = re.compile(r"[^\s\"'`<>,;&|(){}\[\]\\]{1,300}")
_HEADER = re.compile(r"[^\r\n\"'\\]+")
_LINE_SO_FAR = re.compile(
    r"(?:^|[\n{,(\[>])[\s\-*>#]*(?:(?:export|set|env|header)\s+)?[\"']?\Z", re.IGNORECASE
)
_LINE_ENDS = re.compile(r"\s*(?:\Z|[\r\n,;\"')}\]\\]|\.(?:\s|\Z))")
_SCHEME = re.compile(r"(?:bearer|basic|token)[ +]+(?P<value>[a-z0-9._~+/=-]{16,})", re.IGNORECASE)
_HEADERS = ("authorization", "cookie")


def assignments(text: str) -> Iterator[TextSpan | None]:
    """Values behind a secret's name: `password=…`, `"api_key": "…"`, `Authorization: Bearer …`, a URL's `?token=`.

    In prose only a name and a colon at the beginning of a line, or a value that ends the sentence: words about
    secrets are none.
    """
    low = _lowered(text)
    seen = 0
    for position in _places(low, _STEMS):
        if position < seen:
            continue
        begin = _begin_of_name(text, position)
        name = _OF_A_NAME.match(text, begin)
        seen = max(position + 2, name.end() if name else 0)
        if name is not None and _ASSIGNED.match(text, seen):
            words = f"{_word_before(low, begin)}{name.group()}"
            if is_secret_name(words):
                for span in _value(text, words, begin, seen):
                    yield span
                    seen = span.end
        yield None
    for position in _places(low, ("bearer ", "basic ", "token ", "bearer+", "basic+")):
        scheme = _SCHEME.match(text, position)
        value = scheme["value"] if scheme else ""
        if any(character.isdigit() for character in value) or value[1:] != value[1:].lower():
            end = position + len(scheme.group() if scheme else "")
            yield TextSpan(end - len(value), end, NAMED)


def _lowered(text: str) -> str:
    """In small letters, each at its place: a few capitals have two small ones."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _places(low: str, words: Sequence[str]) -> list[int]:
    """Where any of these words begins, in order."""
    found = []
    for word in words:
        position = low.find(word)
        while position >= 0:
            found.append(position)
            position = low.find(word, position + len(word))
    return sorted(found)


def _word_before(low: str, begin: int) -> str:
    """The "api " of "api key"."""
    if low[begin - 1 : begin] != " ":
        return ""
    before = low[max(0, begin - 12) : begin - 1]
    return next((f"{word} " for word in _BEFORE_KEY if before.endswith(word)), "")


def _begin_of_name(text: str, position: int) -> int:
    begin = position
    while begin > max(0, position - 60) and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
        begin -= 1
    return begin


def _value(text: str, name: str, begin: int, end: int) -> Iterator[TextSpan]:
    assigned = _ASSIGNED.match(text, end)
    if assigned is None:
        return
    start = assigned.end()
    if assigned["open"]:
        yield from _unless_count(text, name, start, _closing(text, start, assigned["open"]))
        return
    certain = (
        assigned["close"]
        or "=" in assigned["sign"]
        or text[max(0, begin - 1) : begin] in ("'", '"')
        or _LINE_SO_FAR.search(text, max(0, begin - 40), begin)
    )
    header = certain and any(word in name.lower() for word in _HEADERS)
    bare = (_HEADER if header else _BARE if certain else _WORD).match(text, start)
    if bare is not None and (certain or _LINE_ENDS.match(text, bare.end())):
        yield from _unless_count(text, name, start, bare.end())


def _closing(text: str, start: int, quote: str) -> int:
    """Where the quotation ends; a backslash before the mark, beyond those of the opening one, escapes it."""
    mark, slashes = quote[-1], len(quote) - 1
    position = text.find(mark, start)
    while position >= 0:
        before = 0
        while position - before > start and text[position - before - 1] == "\\":
            before += 1
        if before == slashes or (slashes == 0 and before % 2 == 0):
            return position - before if slashes else position
        position = text.find(mark, position + 1)
    return len(text)


def _unless_count(text: str, name: str, start: int, end: int) -> Iterator[TextSpan]:
    value = text[start:end]
    counted = name.lower() == "pass" or name.lower().endswith("tokens")
    counts = counted and value.replace(",", "").replace(".", "").isdigit()
    if value and not counts and value.lower() not in ("null", "none", "true", "false"):
        yield TextSpan(start, end, NAMED)
