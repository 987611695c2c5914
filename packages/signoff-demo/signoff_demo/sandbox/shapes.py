"""Combinators that validate JSON values, with Slack's own error messages.

A check takes a value and its JSON pointer, and yields one sentence per fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from signoff_demo.sandbox.mrkdwn import escaped_mrkdwn, escaped_plain

Check = Callable[[Any, str], Iterator[str]]


def fault(sentence: str, pointer: str) -> str:
    """Write a fault as Slack does: a sentence, and the JSON pointer of the faulty value."""
    return f"{sentence} [json-pointer:{pointer}]"


def anything(_value: Any, _pointer: str) -> Iterator[str]:
    """No documented rule, or none that matters here."""
    return iter(())


def string(longest: int | None = None, shortest: int = 0, pattern: str | None = None) -> Check:
    """Return a check of a string by its length in characters, and by a pattern for all of it."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, str):
            yield fault("must be a string", pointer)
        elif longest is not None and len(value) > longest:
            yield fault(f"must be less than {longest + 1} characters", pointer)
        elif len(value) < shortest:
            yield fault(f"must be more than {shortest - 1} characters", pointer)
        elif pattern is not None and not re.fullmatch(pattern, value):
            yield fault("failed to match the required format", pointer)

    return check


def whole(low: int | None = None, high: int | None = None) -> Check:
    """Bounds are inclusive."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield fault("must be an integer", pointer)
        elif low is not None and value < low:
            yield fault(f"must be greater than {low - 1}", pointer)
        elif high is not None and value > high:
            yield fault(f"must be less than {high + 1}", pointer)

    return check


def boolean(value: Any, pointer: str) -> Iterator[str]:
    """Check that a value is true or false, and yield a fault if it is not."""
    if not isinstance(value, bool):
        yield fault("must be a boolean", pointer)


def one_of(*allowed: str) -> Check:
    """Return a check that a value is one of these texts."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if value not in allowed:
            yield fault(f"must be one of {', '.join(allowed)}", pointer)

    return check


def array(item: Check, most: int | None = None, least: int = 1) -> Check:
    """Return a check of a list: the number of its items, by default at least one, and each item."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield fault("must provide an array", pointer)
            return
        if most is not None and len(value) > most:
            yield fault(f"no more than {most} items allowed", pointer)
        if len(value) < least:
            yield fault(f"no less than {least} items allowed", pointer)
        for index, each in enumerate(value):
            yield from item(each, f"{pointer}/{index}")

    return check


def shape(required: Mapping[str, Check], optional: Mapping[str, Check]) -> Check:
    """An object with exactly these members."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield fault("must provide an object", pointer)
            return
        for name in required:
            if value.get(name) is None:
                yield fault(f"missing required field: {name}", pointer)
        for name, member in value.items():
            rule = required.get(name) or optional.get(name)
            if name == "type":
                continue
            if rule is None:
                yield fault(f"invalid additional property: {name}", f"{pointer}/{name}")
            elif member is not None or name not in required:
                yield from rule(member, f"{pointer}/{name}")

    return check


def at_least_one(names: tuple[str, ...], rule: Check) -> Check:
    """Return a check that adds to `rule` that at least one of these members is there and not empty."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        yield from rule(value, pointer)
        if isinstance(value, dict) and not any(value.get(name) for name in names):
            yield fault(f"must provide one of {', '.join(names)}", pointer)

    return check


def by_type(table: Mapping[str, Check], only: frozenset[str] | None = None) -> Check:
    """An object whose `type` selects the rule; types outside `only` are not allowed here."""

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield fault("must provide an object", pointer)
        elif not isinstance(kind := value.get("type"), str):
            yield fault("missing required field: type", pointer)
        elif kind not in table or (only is not None and kind not in only):
            yield fault(f"unsupported type: {kind}", f"{pointer}/type")
        else:
            yield from table[kind](value, pointer)

    return check


def text(longest: int, *kinds: str, shortest: int = 1) -> Check:
    """Length is counted after escaping, as Slack stores it."""
    kinds = kinds or ("plain_text", "mrkdwn")
    members: dict[str, dict[str, Check]] = {"plain_text": {"emoji": boolean}, "mrkdwn": {"verbatim": boolean}}

    def check(value: Any, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield fault("must provide an object", pointer)
            return
        kind = value.get("type")
        if kind not in kinds:
            yield fault(f"must be one of {', '.join(kinds)}", f"{pointer}/type")
            return
        escape = escaped_mrkdwn if kind == "mrkdwn" else escaped_plain
        stored = {**value, "text": escape(value["text"])} if isinstance(value.get("text"), str) else value
        yield from shape({"text": string(longest, shortest)}, members[kind])(stored, pointer)

    return check
