"""Facts: what somebody other than the model says about an action, and whether an approval covers the present facts.

A tool of ours looks its facts up itself. The facts of a program's request are told by the program, or looked up by
Signoff. People are shown all of them, so all of them count: an approval covers the very facts that were shown, byte by
byte in canonical form, and no others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from signoff.canonical import canonical_bytes, plain_object
from signoff.errors import MalformedArguments

MAX_BYTES = 64 * 1024
"""How large the facts about one action may be, in canonical form."""


FACTS_MAX_AGE = timedelta(seconds=60)
"""How old facts that a program told may be when it claims, unless policy says otherwise."""


class FactsSource(StrEnum):
    """Where the facts of a program's request come from."""

    PROGRAM = "program"
    SIGNOFF = "signoff"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about an action. `failed`: there should be facts, and there are none.

    `source` is `None` where the tool looks them up itself, and where nobody does.
    """

    values: Mapping[str, Any] | None = None
    failed: bool = False
    source: FactsSource | None = None

    @property
    def canonical(self) -> bytes | None:
        """The bytes by which facts are compared with those that people were shown."""
        return None if self.values is None else canonical_bytes(dict(self.values))

    @property
    def on_record(self) -> dict[str, object]:
        """What the record says of facts that were told or looked up for a program: who said them, and their digest."""
        if self.source is None:
            return {}
        return {"facts": self.canonical_digest, "facts_source": self.source.value}

    @property
    def canonical_digest(self) -> str | None:
        """SHA-256 of the canonical bytes, in hex."""
        return None if self.canonical is None else hashlib.sha256(self.canonical).hexdigest()


def read_facts(values: Any, source: FactsSource) -> Facts:
    """Facts that somebody else wrote. Raises MalformedArguments, with the path."""
    facts = Facts(plain_object(values), source=source)
    if len(facts.canonical or b"") > MAX_BYTES:
        raise MalformedArguments("$", f"is larger than {MAX_BYTES // 1024} KiB")
    return facts


@dataclass(frozen=True, slots=True)
class ApprovedFacts:
    """The facts that people were shown, in canonical form, and for how many seconds they have been known."""

    canonical: bytes | None
    source: FactsSource | None
    age: float
    max_age: float = FACTS_MAX_AGE.total_seconds()


class Coverage(StrEnum):
    """Whether an approval covers the facts at the claim."""

    COVERED = "covered"
    CHANGED = "changed"
    NEEDED = "needed"


def coverage(approved: ApprovedFacts, now: Facts | None, *, are_read: bool) -> Coverage:
    """Whether what was approved may begin with the facts of ``now``; ``None``: nobody has told or looked up any.

    Facts that the program told must be told again when they are too old and a rule reads them (``are_read``), and when
    they were missing as people decided. Facts that Signoff looked up are looked up for every claim.
    """
    if now is not None and not now.failed:
        return Coverage.COVERED if now.canonical == approved.canonical else Coverage.CHANGED
    if approved.source is None and now is None:
        return Coverage.COVERED
    told_lately = approved.source is FactsSource.PROGRAM and approved.canonical is not None and now is None
    too_old = are_read and approved.age > approved.max_age
    return Coverage.COVERED if told_lately and not too_old else Coverage.NEEDED
