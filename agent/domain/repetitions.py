"""Find repeated hidden values: a tool's error may contain the password, a model's answer the card number.

Values secret only by key or `redact` are found only by comparison: as they are, as JSON and URLs write them, with
other spaces or groups of digits, or cut off.
"""

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import quote

from signoff.masks import BY_POLICY, TextSpan

_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")

_DIGITS = r"[^\s,;\"']{0,60}\d[^\s,;\"']{0,60}"

LONG = 8
"""Shorter values are found only as whole words."""

SHORTEST_NAMED = 4
"""Shorter values, secret only by key, are not searched for."""

_LONGEST_CUT = 512
_FEWEST_LEFT = 4
_GROUPED = re.compile(r"[0-9][0-9 .-]{6,38}[0-9]\Z")


def repetitions(text: str, hidden: Iterable[tuple[str, str]]) -> Iterator[TextSpan]:
    """Yield where a text repeats one of the hidden values (value and kind), also rewritten or cut off."""
    for value, kind in hidden:
        if not value.strip() or (kind != BY_POLICY and len(value) < SHORTEST_NAMED):
            continue
        literal, pattern = _forms(value)
        for form in literal:
            yield from _literal(text, form, kind)
        if pattern is not None:
            yield from (TextSpan(*found.span(), kind) for found in pattern.finditer(text))
        if len(value) >= LONG:
            yield from _truncated(text, value[:_LONGEST_CUT], kind)


def named_in(text: str, redact: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Values that a text itself gives under names of `redact`: `card_number: 4111…`, `"iban": "DE…"`, `IBAN DE…`."""
    found = [value for entry in redact for value in _named(entry.rpartition(".")[2], text)]
    return tuple((value, BY_POLICY) for value in dict.fromkeys(found))


@lru_cache(maxsize=256)
def _after(name: str) -> tuple[re.Pattern[str], ...]:
    words = r"[\s_-]?".join(map(re.escape, _PARTS.findall(name) or [name]))
    begin = rf"(?<![^\W_]){words}(?![^\W_])"
    return (
        re.compile(rf"^\W{{0,9}}{begin}[ \t]*[:=][ \t]*(\S[^\r\n]{{0,500}})", re.IGNORECASE | re.MULTILINE),
        re.compile(rf"{begin}[\"']?\s?[:=]?\s?(?:\"([^\"\n]{{1,500}})\"|'([^'\n]{{1,500}})')", re.IGNORECASE),
        re.compile(
            rf"{begin}\s?(?:[:=]|is|no\.?|number)?\s?({_DIGITS}(?:[ -]\d[\w-]{{0,20}}){{0,9}})", re.IGNORECASE
        ),
    )


def _named(name: str, text: str) -> Iterator[str]:
    for pattern in _after(name):
        for found in pattern.finditer(text):
            yield from (
                value.strip(" \t\"'.,;") for value in found.groups() if value and value.strip(" \t\"'.,;")
            )


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[tuple[str, ...], re.Pattern[str] | None]:
    as_json = json.dumps(value)[1:-1]
    unescaped = json.dumps(value, ensure_ascii=False)[1:-1]
    nested = json.dumps(unescaped, ensure_ascii=False)[1:-1]
    urls = (quote(value, safe=""), quote(value), value.replace(" ", "+"))
    literal = tuple(dict.fromkeys([value, value.strip() or value, as_json, unescaped, nested, *urls]))
    if _GROUPED.match(value):
        digits = re.sub(r"\D", "", value)
        return literal, re.compile(r"(?<![0-9])" + "[ ,.-]?".join(digits) + r"(?![0-9])")
    if re.search(r"\s", value.strip()) and len(value) <= _LONGEST_CUT:
        words = r"(?:\s|\\[nrt])+".join(map(re.escape, value.split()))
        return literal, re.compile(words)
    if value.replace(".", "", 1).isdigit():  # as on a card
        whole, _, part = value.partition(".")
        return (*literal, f"{int(whole):,}.{part:<02}", f"{int(whole):,}"), None
    return literal, None


def _literal(text: str, form: str, kind: str) -> Iterator[TextSpan]:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if len(form) >= LONG or _stands_alone(text, start, end):
            yield TextSpan(start, end, kind)
        start = text.find(form, max(end, start + 1))


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (_is_word(before) and _is_word(text[start])) and not (
        _is_word(after) and _is_word(text[end - 1])
    )


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _truncated(text: str, value: str, kind: str) -> Iterator[TextSpan]:
    """Cut at the end of a text or before "…"."""
    ends = [len(text), *(found.start() for found in re.finditer("…", text))][:50]
    for end in ends:
        tail = text[max(0, end - len(value) + 1) : end]
        start = tail.find(value[:_FEWEST_LEFT])
        while start >= 0 and not value.startswith(tail[start:]):
            start = tail.find(value[:_FEWEST_LEFT], start + 1)
        if start >= 0:
            yield TextSpan(end - len(tail) + start, end, kind)
