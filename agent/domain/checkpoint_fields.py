"""Parse the keys of a checkpoints file. A ValueError's text follows the key's name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast, get_args

from agent.domain.expression import compile_pattern, compile_when, whole_pattern
from agent.domain.rules import (
    RESERVED_IDS,
    DecideTogether,
    NeedsReason,
    OnReject,
    OnTimeout,
    RejectedAgain,
    Rule,
    Unmatched,
)
from agent.domain.spelling import meant
from agent.domain.templates import ROOTS, check, check_link
from agent.domain.toml_mistakes import BOOLEANS
from signoff.durations import seconds_of
from signoff.json_paths import is_redacted
from signoff.values import SLACK_USER, Risk

# ruff: noqa: TRY004 (in a file that somebody wrote, a wrong type is a wrong value)


SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(days=365)
MAX_REASONS = 20
MAX_REASON = 75
"""Characters: Slack's limit for a menu choice."""
MAX_REMINDERS = 10
MAX_BECAUSE = 500
"""Characters."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_GROUP = re.compile(r"S[A-Z0-9]{2,20}\Z")
_MAIL = re.compile(r"[^@\s,;<>\"]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")
_PATH = re.compile(r"[^.\s\x00]+(?:\.[^.\s\x00]+)*\Z")
_MONEY = re.compile(r"[^.\s\x00$\[\]]+(?:\.[^.\s\x00$\[\]]+)*\Z")


def is_user(approver: str) -> bool:
    """Return whether an approver is one Slack user, not a user group or the word `channel`."""
    return SLACK_USER.problem(approver) is None


def text(value: Any) -> str:
    """Return the value if it is a text with visible content and without NUL; raise ValueError otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a text that is not empty")
    if "\x00" in value:
        raise ValueError("must not contain a NUL character")
    return value


def boolean(value: Any) -> bool:
    """Return a boolean; raise ValueError for anything else, with what to write instead of a word like yes."""
    if not isinstance(value, bool):
        fix = BOOLEANS.get(str(value).lower())
        raise ValueError(f"must be true or false, without quotes{f'; write {fix}' if fix else ''}")
    return value


def checkpoint_id(value: Any) -> str:
    """Return a valid checkpoint id; raise ValueError for wrong characters or length, or a reserved id."""
    if not isinstance(value, str) or not _ID.match(value):
        raise ValueError("must be up to 64 letters, digits, dots, dashes and underscores")
    if value in RESERVED_IDS:
        raise ValueError(f'"{value}" is a name that Signoff uses itself')
    return value


def pattern(value: Any) -> str:
    """Patterns match from the start of a tool's name."""
    try:
        compile_pattern(text(value))
    except ValueError as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return str(value)


def condition(value: Any) -> str:
    """Return the text of a `when` condition that compiles; raise ValueError with its mistake otherwise."""
    try:
        return compile_when(text(value)).text
    except ValueError as error:
        raise ValueError(f"is not a condition: {error}") from None


def template(value: Any) -> str:
    """Return a description template whose placeholders can be read; raise ValueError otherwise."""
    try:
        check(text(value))
    except ValueError as error:
        raise ValueError(f"is not a template: {error}") from None
    return str(value)


def link_template(value: Any) -> str:
    """Return a link template that makes a valid address; raise ValueError otherwise."""
    try:
        check_link(text(value))
    except ValueError as error:
        raise ValueError(f"is not an address: {error}") from None
    return str(value)


def reason_required(value: Any) -> tuple[NeedsReason, ...]:
    """Return which votes need a reason, without repetitions; raise ValueError for an unknown one."""
    given = {one_of(entry, ["approve", "reject"]) for entry in _listed(value)}
    both: tuple[NeedsReason, ...] = ("approve", "reject")
    return tuple(answer for answer in both if answer in given)


def reject_reasons(value: Any) -> tuple[str, ...]:
    """Return at most 20 reasons to choose from, trimmed; raise ValueError for a repeated or long one."""
    reasons = [text(entry).strip() for entry in _listed(value)]
    if len(reasons) > MAX_REASONS:
        raise ValueError(f"must have at most {MAX_REASONS} entries")
    if any(len(reason) > MAX_REASON for reason in reasons):
        raise ValueError(f"must have entries of at most {MAX_REASON} characters")
    if len(set(reasons)) < len(reasons):
        raise ValueError("must not have the same reason twice")
    return tuple(reasons)


def remind_at(value: Any) -> tuple[float, ...]:
    """Increasing fractions of the waiting time."""
    entries = _listed(value)
    if not all(
        isinstance(entry, int | float) and not isinstance(entry, bool) and 0 < entry < 1 for entry in entries
    ):
        raise ValueError("must be numbers between 0 and 1, such as [0.5, 0.9]")
    if any(later <= earlier for earlier, later in pairwise(entries)):
        raise ValueError("must rise from one entry to the next")
    if len(entries) > MAX_REMINDERS:
        raise ValueError(f"must have at most {MAX_REMINDERS} entries")
    return tuple(float(entry) for entry in entries)


def on_timeout(value: Any) -> OnTimeout:
    """Return what happens to a request at its deadline, `expire` or `escalate`, or raise ValueError."""
    return "escalate" if one_of(value, ["expire", "escalate"]) == "escalate" else "expire"


def redact(value: Any) -> tuple[str, ...]:
    """Names or dotted paths of arguments and facts."""
    for entry in _listed(value):
        if not isinstance(entry, str) or not _PATH.match(entry):
            raise ValueError(f"{entry!r} is not a name such as card_number or a path such as customer.card")
    return tuple(dict.fromkeys(value))


def money(value: Any) -> tuple[str, ...]:
    """Dotted paths of arguments and facts."""
    for entry in _listed(value):
        root, _, rest = (
            entry.partition(".") if isinstance(entry, str) and _MONEY.match(entry) else ("", "", "")
        )
        if not root or (root in ROOTS and not rest):
            raise ValueError(f"{entry!r} is not a path such as facts.price or args.items.0.price")
        if root not in ROOTS:
            raise ValueError(f'{entry!r} must start with "args." or "facts."')
    return tuple(dict.fromkeys(value))


def email_facts(value: Any) -> tuple[str, ...]:
    """The prefix `facts.` is optional."""
    for entry in _listed(value):
        if not isinstance(entry, str) or not _PATH.match(entry):
            raise ValueError(f"{entry!r} is not a name of a fact such as price or a path such as owner.name")
        if entry.startswith("args."):
            raise ValueError(f"{entry!r} is an argument; e-mail carries facts only")
    return tuple(dict.fromkeys(entry.removeprefix("facts.") for entry in value))


def email(value: Any) -> tuple[str, ...]:
    """Return e-mail addresses in the given order, without repetitions; raise ValueError for a wrong one."""
    for entry in _listed(value):
        if not isinstance(entry, str) or not _MAIL.match(entry):
            raise ValueError(f"{entry!r} is not an e-mail address such as finance@example.com")
    return tuple(dict.fromkeys(value))


def risk(value: Any) -> Risk:
    """Return the level of risk that a text names; raise ValueError with all levels for an unknown one."""
    return Risk(one_of(value, [level.value for level in Risk]))


def on_reject(value: Any) -> OnReject:
    """Return whether a rejection ends the run (`stop`) or only answers the model, or raise ValueError."""
    return "stop" if one_of(value, ["stop", "tell_model"]) == "stop" else "tell_model"


def rejected_again(value: Any) -> RejectedAgain:
    """Return `refuse` or `show`: what is done with an action rejected earlier. Raise ValueError otherwise."""
    return "show" if one_of(value, ["refuse", "show"]) == "show" else "refuse"


def decide_together(value: Any) -> DecideTogether:
    """Return up to which risk several requests may be decided in one form, or raise ValueError."""
    return cast("DecideTogether", one_of(value, get_args(DecideTogether)))


def verdict(value: Any) -> str:
    """Return whether a checkpoint asks people or denies (`ask`, `deny`), or raise ValueError."""
    return one_of(value, ["ask", "deny"])


def because(value: Any) -> str:
    """Return the operator's reason for a denial, trimmed; raise ValueError if blank or too long (500)."""
    if len(words := text(value).strip()) > MAX_BECAUSE:
        raise ValueError(f"must have at most {MAX_BECAUSE} characters")
    return words


def unmatched(value: Any) -> Unmatched:
    """Return what is done with tools that no checkpoint names (review, allow, deny), or raise ValueError."""
    choice = one_of(value, ["review", "allow", "deny"])
    return "allow" if choice == "allow" else "deny" if choice == "deny" else "review"


def approvers(value: Any) -> tuple[str, ...]:
    """Return who may vote: Slack users, user groups or `channel`; raise ValueError for none or a wrong id."""
    entries = _ids(value, 'a Slack user id (U…, W…), a user group id (S…) or "channel"', {"channel"})
    if not entries:
        raise ValueError("must not be empty: its requests would have no reviewer")
    return entries


def notify(value: Any) -> tuple[str, ...]:
    """Return whom cards mention, users and user groups, perhaps none; raise ValueError for a wrong id."""
    return _ids(value, "a Slack user id (U…, W…) or a user group id (S…)", set())


def escalate_to(value: Any) -> tuple[str, ...]:
    """Return who may vote after an escalation: users and groups; raise ValueError for none or a wrong id."""
    entries = notify(value)
    if not entries:
        raise ValueError("must not be empty: there would be nobody to escalate to")
    return entries


def approvals_required(value: Any) -> int:
    """Return how many approvals a request needs, 1 or more; raise ValueError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError("must be a whole number, 1 or more, without quotes")
    return value


def cards_per_minute(value: Any) -> int:
    """Slack takes about one message per second and channel."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 60:
        raise ValueError("must be a whole number from 1 to 60")
    return value


def group_from(value: Any) -> int:
    """Return how many requests of one batch share a message, 2 or more, or 0 for never; raise ValueError otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or value == 1:
        raise ValueError("must be a whole number, 2 or more, or 0 for never")
    return value


def duration(value: Any) -> timedelta:
    """Return a time between 1 second and 365 days, written as `24h` or in seconds, or raise ValueError."""
    amount = seconds_of(value)
    if not SHORTEST.total_seconds() <= amount <= LONGEST.total_seconds():
        raise ValueError("must be between 1 second and 365 days")
    return timedelta(seconds=amount)


def one_of(value: Any, choices: Sequence[str]) -> str:
    """Return the value if it is among the choices; raise ValueError with the choices and a likely meaning."""
    if value not in choices:
        hint = meant(value.strip().lower(), choices) if isinstance(value, str) else ""
        raise ValueError(f"must be one of {', '.join(choices)}{hint}")
    return str(value)


def _listed(value: Any) -> list[Any]:
    if isinstance(value, str | int | float):
        raise ValueError(f"must be a list; write [{json.dumps(value, ensure_ascii=False)}]")
    if not isinstance(value, list):
        raise ValueError("must be a list")
    return value


def _where_ids_are(entry: Any) -> str:
    """In Slack, whose people know names."""
    text = entry.strip() if isinstance(entry, str) else ""
    mention = re.fullmatch(r"<(?:@|!subteam\^)([UWS][A-Z0-9]{2,20})(?:\|[^>]*)?>", text)
    if mention or re.fullmatch(r"[UWS]\d[A-Z0-9]{1,19}", text.upper()):
        return f'write "{mention[1] if mention else text.upper()}"'
    if re.match(r"#|[CG][A-Z0-9]{7,}\Z", text):
        return 'a channel is set with "channel", and "channel" among the approvers are its members'
    group = 'a group\'s id is in Slack under "People" > "User groups" > the group > "⋮" > "Copy group ID"'
    person = 'a person\'s is in the profile under "⋮" > "Copy member ID"'
    return f"{group}; {person}"


def _ids(value: Any, shape: str, words: set[str]) -> tuple[str, ...]:
    for entry in _listed(value):
        fits = isinstance(entry, str) and (entry in words or is_user(entry) or _GROUP.match(entry))
        if not fits:
            raise ValueError(f"{entry!r} is not {shape}; {_where_ids_are(entry)}")
    return tuple(dict.fromkeys(value))


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
            found[name if "." in name else f"args.{name}"] = whole_pattern(text(wanted))
        except ValueError as error:
            raise ValueError(f"has no pattern for {name}: {error}") from None
    return tuple(found.items())


def most_uses(value: Any) -> int:
    """Return the policy's limit on a grant's uses, 1 to 10,000; raise ValueError for anything else."""
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


GRANTS = {"max_for": duration, "max_uses": most_uses}
