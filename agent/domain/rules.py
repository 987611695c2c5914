"""What an operator writes: checkpoints, their terms, and bounds of grants."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_serializer,
)

from agent.domain.answers import REVIEWERS, AnswerForm
from agent.domain.expression import compile_when, matches_from_start
from agent.domain.facts import FACTS_MAX_AGE
from agent.domain.templates import describe, placeholder_names, render_link
from signoff.canonical import canonical_bytes
from signoff.description import MAX_STORED, InWords, action_in_words, bounded
from signoff.formats import Money, in_words
from signoff.json_paths import without
from signoff.masks import redact_by_name
from signoff.values import FOLDER, Action, Risk
from signoff.visible_text import one_line

OnReject = Literal["stop", "tell_model"]
OnTimeout = Literal["expire", "escalate"]
NeedsReason = Literal["approve", "reject"]
Unmatched = Literal["review", "allow", "deny"]
RejectedAgain = Literal["refuse", "show"]
DecideTogether = Literal["never", "low", "medium"]
Layout = Literal["standard", "plain"]
Snapshot = dict[str, Any]
"""Stored with each request, so that edits of the file do not change it."""

UNMATCHED = "unmatched"
REQUIRES_APPROVAL = "requires_approval"
FACTS_FAILED = "facts_failed"
LIMIT_REACHED = "limit_reached"
DERIVED = {
    UNMATCHED: "No rule names this action, so people are asked",
    REQUIRES_APPROVAL: "Its tool always asks people",
    FACTS_FAILED: "Its facts could not be looked up, so people are asked",
    LIMIT_REACHED: "A limit has no room for it, so people are asked",
}
"""Rules made from the defaults, in words for people."""
RESERVED_IDS = frozenset(DERIVED)


def on_reject_by_risk(risk: Risk) -> OnReject:
    """Below high risk the model may try something else."""
    return "stop" if risk >= Risk.HIGH else "tell_model"


class Terms(BaseModel):
    """The keys shared by `[defaults]` and checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    risk: Risk = Risk.MEDIUM
    approvers: tuple[str, ...] = ("channel",)
    """User ids (U…, W…), user group ids (S…), or "channel" for its current members."""

    notify: tuple[str, ...] = ()
    """Mentioned on the card, without the right to decide."""

    approvals_required: int = Field(default=1, ge=1)
    channel: str | None = None
    """None: the service's own."""

    timeout: timedelta = timedelta(hours=24)
    timeout_written: bool = False
    """If so, a program without a timeout of its own waits as long. The default may be written, too."""

    prevent_self_review: bool = True
    on_reject: OnReject | None = None
    """None, in defaults only: by risk."""

    reason_required: tuple[NeedsReason, ...] = ()

    reject_reasons: tuple[str, ...] = ()
    """Own words are always possible."""

    allow_edit: bool = False
    """An edited action needs new votes."""

    editor_may_approve: bool = False
    """If not, another reviewer must approve the edit, and what is proposed after it."""

    adviser_may_approve: bool = False
    """If not, another reviewer must approve what is proposed after a person's own words."""

    remind_at: tuple[float, ...] = ()
    """Increasing fractions of the waiting time."""

    on_timeout: OnTimeout = "expire"
    """`escalate`: at the deadline `escalate_to` may decide as well, and it waits as long again."""

    escalate_to: tuple[str, ...] = ()
    """Users and user groups."""

    redact: tuple[str, ...] = ()
    """Names or dotted paths hidden from everyone (`signoff.json_paths`)."""

    money: tuple[str, ...] = ()
    """Paths of arguments and facts that people read as money (`signoff.formats.Money`)."""

    facts_max_age: timedelta = FACTS_MAX_AGE
    """At a program's claim. Older facts that a rule reads must be sent again."""

    execute_within: timedelta = timedelta(hours=24)
    """How long an external executor can claim an approval. Our own agents start at once."""

    email: tuple[str, ...] = ()
    """Get a link to each request, without the right to decide."""

    email_facts: tuple[str, ...] = ()
    """Names or dotted paths."""

    rejected_holds: timedelta | None = None
    """In every run of its agent; None: only in its run."""

    rejected_again: RejectedAgain = "refuse"
    """`show` asks people, who see the rejection."""

    decide_together: DecideTogether = "medium"
    """Up to which risk one form may decide several requests, each by a vote of its own."""

    @field_serializer("rejected_holds")
    def _seconds_if_any(self, duration: timedelta | None) -> float | None:
        return None if duration is None else duration.total_seconds()

    @field_serializer("timeout", "execute_within", "facts_max_age")
    def _seconds(self, duration: timedelta) -> float:
        return duration.total_seconds()


CARDS_PER_MINUTE = 10
GROUP_FROM = 4


class Defaults(Terms):
    """The defaults of a policy: terms that its checkpoints inherit, and settings that only it has."""

    unmatched: Unmatched = "review"
    """For a tool that no checkpoint names, unless read-only."""

    admin_channel: str | None = None
    """Notified, besides the requester, of an unreachable review channel."""

    default_agent: str | None = None
    """Gets messages to the app itself."""

    cards_per_minute: int = Field(default=CARDS_PER_MINUTE, ge=1)
    """Per agent or program's key, channel and minute; a digest shows the rest."""

    group_from: int = Field(default=GROUP_FROM, ge=0)
    """So many requests of one batch and checkpoint share a message; 0: each has a card."""

    def terms(self) -> dict[str, Any]:
        return self.model_dump(include=set(Terms.model_fields))


class Checkpoint(BaseModel):
    """What a `[[checkpoint]]` catches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint_id: str
    action_pattern: str
    when: str | None = None

    def names(self, tool: str) -> bool:
        """Match from the start: `delete_*` names `delete_records`."""
        return matches_from_start(self.action_pattern, tool)

    @property
    def judges_facts(self) -> bool:
        return self.when is not None and compile_when(self.when).uses_facts

    def snapshot(self) -> Snapshot:
        return self.model_dump(mode="json")


class Denial(Checkpoint):
    """A checkpoint with `verdict = "deny"`: what it catches never runs, and nobody is asked."""

    because: str | None = None
    """The operator's words to the model or program; None: the checkpoint's name."""

    place: int = Field(default=0, exclude=True)
    """Index among the file's checkpoints."""

    @property
    def told(self) -> str:
        """Without a full stop, as all reasons."""
        return (
            self.because.removesuffix(".")
            if self.because
            else f'checkpoint "{self.checkpoint_id}" denies this'
        )


class Rule(Checkpoint, Terms):
    """A checkpoint that asks people."""

    description_template: str | None = None
    link_template: str | None = None
    """The operator's own host, with values filled in."""

    on_reject: OnReject
    allow_grants: bool = False
    """For similar calls, in advance (`agent.domain.grants`)."""

    grant_free: tuple[tuple[str, str], ...] = ()
    """May vary in a grant: `args.<name>` or `facts.<name>`, each with its pattern."""

    layout: Layout = "standard"
    """`plain`: names as words, without the tool's."""

    labels: tuple[tuple[str, str], ...] = ()
    """What arguments and facts are called, by their names."""

    hide: tuple[str, ...] = ()
    """Names of arguments and facts, or dotted paths, that only Details shows, below high risk."""

    def for_answers(self, form: AnswerForm | None) -> Self:
        """Without what is about actions, if a question wants more than yes or no.

        More people may answer after the deadline only if the checkpoint's reviewers are among those who may.
        """
        if form is None:
            return self
        actions = {"allow_edit": False, "allow_grants": False, "reason_required": (), "reject_reasons": ()}
        escalates = REVIEWERS in form.answerers
        return self.model_copy(update=actions if escalates else {**actions, "on_timeout": "expire"})

    @property
    def hidden(self) -> tuple[str, ...]:
        """Its risk is the tool's where that is higher."""
        return self.hide if self.risk < Risk.HIGH else ()

    def called(self, name: str) -> str:
        """What an argument or fact is called on cards, if no other name reads like it."""
        labels = dict(self.labels)
        if name in labels:
            return labels[name]
        plain = in_words(name) if self.layout == "plain" else name
        spoken = "in folder" if name == FOLDER else plain  # where a coding agent works; its name is ours
        return _quoted(name) if as_read(spoken) in map(as_read, labels.values()) else spoken

    def called_in(self, *given: Mapping[str, Any] | None) -> Callable[[str], str]:
        """`called`, with those names in quotation marks that would read like another one in these values."""
        as_given = self.layout == "standard" and not self.labels
        if as_given and not any(FOLDER in (each or {}) for each in given):
            return str
        words = {name: self.called(name) for name in _names(given)}
        readings = Counter(map(as_read, words.values()))

        def called(name: str) -> str:
            spoken = words.get(name) or self.called(name)
            alike = readings[as_read(spoken)] > 1 or (spoken == name and name.startswith('"'))
            return _quoted(name) if alike and name not in dict(self.labels) else spoken

        return called

    @property
    def reads_facts(self) -> bool:
        templates = (self.description_template or "", self.link_template or "")
        filled_in = {path[0] for template in templates for path in placeholder_names(template)}
        return self.judges_facts or "facts" in filled_in or bool(self.email_facts)

    def describe(self, action: Action, facts: Mapping[str, Any] | None) -> str:
        """Mask values (by name and `redact`), because lists and notifications show them.

        To be shown by `signoff.description.shown`.
        """
        return self.described(action, facts).text

    def described(self, action: Action, facts: Mapping[str, Any] | None) -> InWords:
        """`describe`, with the names of the arguments that it shows whole."""
        arguments, money = redact_by_name(action.arguments, self.redact).value, Money.declared(self.money)
        if self.description_template is None:
            told = without(arguments, self.hidden, "args")
            tool = in_words(action.tool) if self.layout == "plain" else action.tool
            called = self.called_in(action.arguments, facts)
            return action_in_words(tool, told.values, money, called, hidden=told.left_out)
        known = redact_by_name(facts, self.redact, "facts").value
        text, whole = describe(self.description_template, arguments, known, money)
        stored = bounded(text, MAX_STORED)
        return InWords(stored, whole if stored == text else frozenset())

    def link(self, action: Action, facts: Mapping[str, Any] | None) -> str | None:
        """None without a template, or if a value is missing."""
        if self.link_template is None:
            return None
        return render_link(self.link_template, action.arguments, facts)

    @property
    def digest(self) -> bytes:
        """Not cached: `model_copy` would keep the digest of the rule that it copies."""
        return digest_of(self.snapshot())

    @classmethod
    def from_snapshot(cls, snapshot: Mapping[str, Any]) -> "Rule":
        """Raises pydantic.ValidationError."""
        return cls.model_validate(snapshot)


@dataclass(frozen=True)
class ObservedRule:
    """Decides nothing; what it would have asked is counted."""

    rule: Rule
    until: datetime
    place: int
    """Number of rules before it."""

    @cached_property
    def version(self) -> str:
        return self.rule.digest.hex()[:12]

    def snapshot(self) -> Snapshot:
        return {"rule": self.rule.snapshot(), "until": self.until.isoformat(), "place": self.place}


@dataclass(frozen=True, slots=True)
class GrantLimits:
    """`[grants]`: a grant beyond them is refused."""

    max_for: timedelta
    max_uses: int

    def snapshot(self) -> Snapshot:
        return {"max_for": self.max_for.total_seconds(), "max_uses": self.max_uses}


def as_read(words: str) -> str:
    """As people tell names on a card apart: case and blanks make no difference."""
    return one_line(words).casefold()


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _names(given: Iterable[Any]) -> set[str]:
    """Of members at any depth."""
    found: set[str] = set()
    ahead = list(given)
    while ahead:
        value = ahead.pop()
        if isinstance(value, Mapping):
            found.update(map(str, value))
            ahead += value.values()
        elif isinstance(value, list | tuple):
            ahead += value
    return found


def digest_of(value: Any) -> bytes:
    """SHA-256 of canonical JSON."""
    return hashlib.sha256(canonical_bytes(value)).digest()
