"""Parse keys about grants. A ValueError's text follows the key's name."""

# ruff: noqa: TRY004 (in a file that somebody wrote, a wrong type is a wrong value)

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agent.domain import checkpoint_fields
from agent.domain.expression import whole_pattern
from agent.domain.rules import Rule
from signoff.json_paths import is_redacted
from signoff.values import Risk

_NAME = re.compile(r"(?:(?:args|facts)\.)?[^.\s\x00]+\Z")


def grant_free(value: Any) -> tuple[tuple[str, str], ...]:
    """Arguments, and facts as `facts.<name>`, each with the pattern of its whole text."""
    if not isinstance(value, dict):
        raise ValueError('must be a table such as { order_id = "[0-9]+" }')
    found: dict[str, str] = {}
    for name, wanted in value.items():
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not an argument such as order_id or a fact such as facts.region")
        try:
            found[name if "." in name else f"args.{name}"] = whole_pattern(checkpoint_fields.text(wanted))
        except ValueError as error:
            raise ValueError(f"has no pattern for {name}: {error}") from None
    return tuple(found.items())


def most_uses(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10_000:
        raise ValueError("must be a whole number from 1 to 10,000")
    return value


def problems(rule: Rule, *, given: bool) -> Iterator[tuple[str, str]]:
    """``given``: there is a table `[grants]`."""
    if rule.allow_grants and not given:
        yield "allow_grants", '"allow_grants" needs the table [grants], with "max_for" and "max_uses"'
    if rule.allow_grants and rule.risk >= Risk.CRITICAL:
        yield "allow_grants", 'critical actions allow no grants: remove "allow_grants"'
    if rule.grant_free and not rule.allow_grants:
        yield "grant_free", '"grant_free" is used only with "allow_grants = true"'
    for path, _ in rule.grant_free:
        root, _, name = path.partition(".")
        if is_redacted((name,), rule.redact, root):
            yield "grant_free", f'"grant_free" would leave {path} open, which "redact" hides'


GRANTS = {"max_for": checkpoint_fields.duration, "max_uses": most_uses}
