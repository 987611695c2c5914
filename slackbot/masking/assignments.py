"""Values behind a secret's name: assignments, headers, query strings, JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from signoff.masks import NAMED, TextSpan, is_secret_name

STEMS = (
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
    """Values behind a secret's name (`password=…`, `"api_key": "…"`, `?token=`).

    In prose only where a line begins or ends.
    """
    low = _lowered(text)
    seen = 0
    for position in _places(low, STEMS):
        if position < seen:
            continue
        begin = _name_start(text, position)
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
    """Keep the length: a few capitals have two small letters."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _places(low: str, words: Sequence[str]) -> list[int]:
    found = []
    for word in words:
        position = low.find(word)
        while position >= 0:
            found.append(position)
            position = low.find(word, position + len(word))
    return sorted(found)


def _word_before(low: str, begin: int) -> str:
    if low[begin - 1 : begin] != " ":
        return ""
    before = low[max(0, begin - 12) : begin - 1]
    return next((f"{word} " for word in _BEFORE_KEY if before.endswith(word)), "")


def _name_start(text: str, position: int) -> int:
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
    """A backslash before the mark, beyond those of the opening one, escapes it."""
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
