"""Facts about an action that do not come from the model.

Our tools look up their own. A program sends its facts, or Signoff looks them up. People see all facts, so an approval
covers exactly those shown, byte by byte in canonical form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from agent.domain.webhook_urls import check_url, networks
from signoff.canonical import canonical_bytes, parse_canonical, plain_object
from signoff.errors import MalformedArguments
from signoff.values import ACTION_NAME

MAX_BYTES = 64 * 1024
"""Per action, in canonical form."""


FACTS_MAX_AGE = timedelta(seconds=60)
"""Of a program's facts at its claim, unless policy says otherwise."""

TABLE = "facts"
KEYS = ("tool", "url")

_ANYWHERE = networks("0.0.0.0/0, ::/0")

Problem = Callable[[int, str | None, str], None]
"""Gets the table's index, the key (None: the table), and the problem."""


class FactsSource(StrEnum):
    """Where the facts of a program's request come from."""

    PROGRAM = "program"
    SIGNOFF = "signoff"


@dataclass(frozen=True, slots=True)
class Facts:
    """`failed`: there should be facts. `source` is `None` if the tool looks them up, or nobody does."""

    values: Mapping[str, Any] | None = None
    failed: bool = False
    source: FactsSource | None = None

    @property
    def canonical(self) -> bytes | None:
        return None if self.values is None else canonical_bytes(dict(self.values))

    @classmethod
    def from_canonical(cls, canonical: bytes | None, source: FactsSource | None) -> Facts:
        """Stored facts; failed if there should have been some."""
        values = None if canonical is None else parse_canonical(bytes(canonical))
        return cls(values, failed=values is None and source is not None, source=source)

    @property
    def on_record(self) -> dict[str, object]:
        if self.source is None:
            return {}
        return {"facts": self.canonical_digest, "facts_source": self.source.value}

    @property
    def canonical_digest(self) -> str | None:
        return None if self.canonical is None else hashlib.sha256(self.canonical).hexdigest()


def read_facts(values: Any, source: FactsSource) -> Facts:
    """Raises MalformedArguments, with the path."""
    facts = Facts(plain_object(values), source=source)
    if len(facts.canonical or b"") > MAX_BYTES:
        raise MalformedArguments("$", f"is larger than {MAX_BYTES // 1024} KiB")
    return facts


@dataclass(frozen=True, slots=True)
class FactsLookup:
    """The URL at which the facts of one tool's actions are looked up when a program proposes them."""

    tool: str
    url: str


def read_lookups(tables: Any, problem: Problem) -> tuple[FactsLookup, ...]:
    """Return the valid `[[facts]]` tables; each problem goes to ``problem`` and leaves its table out."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        problem(0, None, "write [[facts]], with two brackets")
        return ()
    found: dict[str, FactsLookup] = {}
    for index, table in enumerate(tables):
        wrong = list(_problems(table))
        if not wrong and table["tool"] in found:
            wrong = [("tool", f'"tool" names {table["tool"]}, as an earlier table does')]
        for key, what in wrong:
            problem(index, key, what)
        if not wrong:
            found[table["tool"]] = FactsLookup(table["tool"], table["url"])
    return tuple(found.values())


def _problems(table: Mapping[str, Any]) -> Iterator[tuple[str | None, str]]:
    for key in table.keys() - set(KEYS):
        yield key, f'unknown key "{key}" (there are: {", ".join(KEYS)})'
    for key in KEYS:
        if key not in table:
            yield None, f'"{key}" is missing'
    tool, url = table.get("tool"), table.get("url")
    if "tool" in table and (not isinstance(tool, str) or ACTION_NAME.problem(tool)):
        yield "tool", '"tool" must be the name of one tool'
    if "url" in table:
        try:
            # Allowed networks are a setting; the resolved address is checked before each POST.
            check_url(url if isinstance(url, str) else "", _ANYWHERE)
        except ValueError as error:
            yield "url", f'"url" {error}'
