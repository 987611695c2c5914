"""Values of an approval. Digest, card and execution all read an action's canonical bytes."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import rfc8785

from signoff.canonical import (
    MAX_BYTES,
    canonical_bytes,
    parse_canonical,
    parse_checked,
    parse_envelope,
    plain_name,
    plain_object,
)
from signoff.errors import MalformedArguments

COMMAND = "signoff_command"
"""Holds the command of `signoff gate`, word by word. Reviewers cannot edit it."""

FOLDER = "signoff_folder"
"""Holds the directory of a coding agent's call, without symbolic links. Reviewers cannot edit it."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a name is written: `pattern` for machines, `words` for people, who follow the name."""

    pattern: str
    most: int
    words: str

    def problem(self, given: str) -> str | None:
        if (
            "\n" in given or re.search(self.pattern, given, re.ASCII) is None
        ):  # `$` also matches before a last \n
            return self.words
        return f"must have at most {self.most} characters" if len(given) > self.most else None


ACTION_NAME = Spelling(
    r"^[A-Za-z_][A-Za-z0-9_.:-]*$",
    128,
    "must have only letters, digits and `_.:-`, and begin with a letter or `_`, such as `delete_records`",
)
REQUEST_NAME = Spelling(
    r"^[A-Za-z0-9_][A-Za-z0-9_.:@~-]*$",
    128,
    "must have only letters, digits and `_.:@~-`, and begin with a letter, a digit or `_`, such as `delete-42`",
)
SLACK_USER = Spelling(r"^[UW][A-Z0-9]{2,20}$", 21, "must be a person's id in Slack, such as `U012ABCDEF`")
ARGUMENT_NAME = Spelling(
    r"^[A-Za-z_][A-Za-z0-9_.-]*$",
    64,
    "must have only letters, digits and `_.-`, and begin with a letter or `_`, such as `env`",
)


@dataclass(frozen=True)
class Action:
    """A tool call as people approve it. Raises MalformedArguments."""

    tool: str
    tool_version: str
    arguments: Mapping[str, Any] = field(hash=False)
    canonical: bytes = field(init=False, repr=False, compare=False)
    """RFC 8785 bytes of `{"arguments": …, "tool": …, "tool_version": …}`."""

    def __post_init__(self) -> None:
        arguments = plain_object(self.arguments)
        encoded = canonical_bytes(arguments)
        envelope: dict[str, Any] = {
            "arguments": arguments,
            "tool": plain_name(self.tool, "tool"),
            "tool_version": plain_name(self.tool_version, "tool_version"),
        }
        object.__setattr__(self, "arguments", parse_canonical(encoded))
        object.__setattr__(self, "canonical", rfc8785.dumps(envelope))

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes."""
        return hashlib.sha256(self.canonical).digest()

    @staticmethod
    def from_canonical(encoded: bytes) -> "Action":
        """Raises MalformedArguments if the bytes are not canonical."""
        value = parse_envelope(encoded)
        if not isinstance(value, dict) or value.keys() != {"arguments", "tool", "tool_version"}:
            raise MalformedArguments("$", "is not an action")
        arguments = value["arguments"]
        if not isinstance(arguments, dict) or len(encoded) > MAX_BYTES:
            # Constructing it raises the precise error, if any.
            return Action(value["tool"], value["tool_version"], arguments)
        plain_name(value["tool"], "tool")
        plain_name(value["tool_version"], "tool_version")
        # Parsing and re-encoding proved the bytes canonical.
        return _read(value, encoded)

    @staticmethod
    def from_checked(encoded: bytes) -> "Action":
        """For display of bytes that were checked when stored, not for execution."""
        return _read(parse_checked(encoded), encoded)


def _read(value: Mapping[str, Any], encoded: bytes) -> Action:
    action = object.__new__(Action)
    for name in ("tool", "tool_version", "arguments"):
        object.__setattr__(action, name, value[name])
    object.__setattr__(action, "canonical", encoded)
    return action


@dataclass(frozen=True, slots=True)
class Person:
    """A person or principal in one Slack workspace: Slack ids are unique within their team only."""

    team_id: str
    user_id: str

    def __str__(self) -> str:
        return f"{self.team_id}/{self.user_id}"


class Risk(StrEnum):
    """How much can go wrong, in ascending order. `high` and above ask for confirmation."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for low, 3 for critical."""
        return _RANKS[self]

    # Strings compare alphabetically: "critical" would be the smallest.
    def __lt__(self, other: str) -> bool:
        return self.rank < Risk(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Risk(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Risk(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Risk(other).rank


_RANKS = {risk: rank for rank, risk in enumerate(Risk)}
