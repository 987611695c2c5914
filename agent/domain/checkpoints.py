"""Read a checkpoints file (TOML) into a policy, or report all its problems with file and line.

A key that would not be enforced is an error: a control without effect is worse than none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from agent.domain import card_fields, checkpoint_fields, facts, limit_fields, observation
from agent.domain.checkpoint_checks import Written, contradictions
from agent.domain.errors import PolicyError
from agent.domain.facts import FactsLookup
from agent.domain.limits import Limit
from agent.domain.policy import Policy
from agent.domain.rules import Defaults, Denial, GrantLimits, ObservedRule, Rule, on_reject_by_risk
from agent.domain.spelling import meant
from agent.domain.templates import placeholder_names
from agent.domain.toml_mistakes import syntax_problem
from agent.domain.toml_text import Lines
from signoff.errors import MalformedArguments
from signoff.json_paths import is_redacted

TERMS = {
    "risk": checkpoint_fields.risk,
    "approvers": checkpoint_fields.approvers,
    "notify": checkpoint_fields.notify,
    "approvals_required": checkpoint_fields.approvals_required,
    "channel": checkpoint_fields.text,
    "timeout": checkpoint_fields.duration,
    "timeout_seconds": checkpoint_fields.duration,
    "prevent_self_review": checkpoint_fields.boolean,
    "on_reject": checkpoint_fields.on_reject,
    "reason_required": checkpoint_fields.reason_required,
    "reject_reasons": checkpoint_fields.reject_reasons,
    "allow_edit": checkpoint_fields.boolean,
    "editor_may_approve": checkpoint_fields.boolean,
    "adviser_may_approve": checkpoint_fields.boolean,
    "remind_at": checkpoint_fields.remind_at,
    "on_timeout": checkpoint_fields.on_timeout,
    "escalate_to": checkpoint_fields.escalate_to,
    "redact": checkpoint_fields.redact,
    "money": checkpoint_fields.money,
    "execute_within": checkpoint_fields.duration,
    "rejected_holds": checkpoint_fields.duration,
    "rejected_again": checkpoint_fields.rejected_again,
    "decide_together": checkpoint_fields.decide_together,
    "facts_max_age": checkpoint_fields.duration,
    "email": checkpoint_fields.email,
    "email_facts": checkpoint_fields.email_facts,
}
DEFAULTS = TERMS | {
    "unmatched": checkpoint_fields.unmatched,
    "admin_channel": checkpoint_fields.text,
    "default_agent": checkpoint_fields.text,
    "cards_per_minute": checkpoint_fields.cards_per_minute,
    "group_from": checkpoint_fields.group_from,
}
CHECKPOINT = TERMS | {
    "checkpoint_id": checkpoint_fields.checkpoint_id,
    "action_pattern": checkpoint_fields.pattern,
    "when": checkpoint_fields.condition,
    "description_template": checkpoint_fields.template,
    "link_template": checkpoint_fields.link_template,
    "allow_grants": checkpoint_fields.boolean,
    "grant_free": checkpoint_fields.grant_free,
    "verdict": checkpoint_fields.verdict,
    "layout": card_fields.layout,
    "labels": card_fields.labels,
    "hide": card_fields.hide,
    **observation.KEYS,
}
DENIAL = {
    **{key: CHECKPOINT[key] for key in ("checkpoint_id", "action_pattern", "when", "verdict")},
    "because": checkpoint_fields.because,
}
"""The keys of a checkpoint that denies: it asks nobody."""
TABLES = {"defaults", "checkpoint", "limit", "grants", facts.TABLE}


def load(
    text: str,
    *,
    filename: str,
    no_mail: str | None = None,
    no_lookups: str | None = None,
    now: datetime | None = None,
) -> Policy:
    """Read a policy; without text, everything not read-only needs approval.

    `no_mail`, `no_lookups`: why `email` or `[[facts]]` would be a problem. `now` bounds `observe_until`; None for a
    policy applied earlier. Raises PolicyError, with a line per problem: `checkpoints.toml:12: …`.
    """
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError([syntax_problem(error, filename, text)]) from None
    reader = _Reader(filename, Lines(text), no_mail, no_lookups, now)
    policy = reader.policy(tables, text)
    if reader.problems:
        raise PolicyError(line for _, line in sorted(reader.problems))
    try:
        _ = policy.digest
    except MalformedArguments as error:
        raise PolicyError([f"{filename}:1: the policy has no digest: {error}"]) from None
    return policy


@lru_cache(maxsize=16)
def redacted(source: str) -> tuple[str, ...]:
    """What any checkpoint of a policy hides in arguments; nothing if it cannot be read."""
    try:
        policy = load(source, filename="")
    except PolicyError:
        return ()
    names = (name for rule in policy.all_rules for name in rule.redact)
    return tuple(dict.fromkeys(name for name in names if not name.startswith("facts.")))


class _Reader:
    def __init__(
        self,
        filename: str,
        lines: Lines,
        no_mail: str | None,
        no_lookups: str | None,
        now: datetime | None,
    ) -> None:
        self.problems: list[tuple[int, str]] = []
        self._filename = filename
        self._lines = lines
        self._no_mail = no_mail
        self._no_lookups = no_lookups
        self._now = now
        self._has_grants = False

    def policy(self, tables: Mapping[str, Any], source: str) -> Policy:
        for name in tables.keys() - TABLES:
            line = self._lines.of(name)
            self._problem(line, f'unknown table "{name}"{meant(name, TABLES)}')
        self._has_grants = "grants" in tables
        defaults = self._defaults(tables.get("defaults", {}))
        checkpoints = tables.get("checkpoint", [])
        if not isinstance(checkpoints, list):
            self._problem(self._lines.of("checkpoint"), "write [[checkpoint]], with two brackets")
            checkpoints = []
        read = [
            self._denial(i, table) if _denies(table) else self._rule(i, table, defaults)
            for i, table in enumerate(checkpoints)
        ]
        grants = self._grants(tables["grants"]) if self._has_grants else None
        self._refuse_duplicates(checkpoints)
        limits = limit_fields.read(tables.get("limit", []), self._lines, self._problem)
        lookups = self._lookups(tables.get(facts.TABLE, []))
        self._check_hidden(checkpoints, read, limits)
        kept, observed = _split(each for each in read if isinstance(each, _ReadRule))
        return Policy(
            kept,
            defaults,
            grants=grants,
            limits=limits,
            lookups=lookups,
            observed=observed,
            denials=tuple(each for each in read if isinstance(each, Denial)),
            source=source,
        )

    def _lookups(self, tables: Any) -> tuple[FactsLookup, ...]:
        def problem(index: int, key: str | None, what: str) -> None:
            self._problem(self._lines.of(facts.TABLE, index, key), f"facts #{index + 1}: {what}")

        if tables and self._no_lookups:
            problem(0, None, f"cannot be enforced: {self._no_lookups}")
        return facts.read_lookups(tables, problem)

    def _defaults(self, table: Any) -> Defaults:
        read = self._table("defaults", 0, "[defaults]", table, DEFAULTS)
        defaults = Defaults(**read)
        self._check(Written("defaults", 0, "[defaults]", table), defaults)
        return defaults

    def _grants(self, table: Any) -> GrantLimits | None:
        read = self._table("grants", 0, "[grants]", table, checkpoint_fields.GRANTS)
        missing = [key for key in checkpoint_fields.GRANTS if isinstance(table, dict) and key not in table]
        for key in missing:
            self._problem(self._lines.of("grants"), f'[grants]: "{key}" is missing')
        return None if missing or len(read) < len(checkpoint_fields.GRANTS) else GrantLimits(**read)

    def _checkpoint(self, index: int, table: Any, known: Mapping[str, Any]) -> dict[str, Any] | None:
        label = _label(index, table)
        read = self._table("checkpoint", index, label, table, known)
        missing = [key for key in ("checkpoint_id", "action_pattern") if key not in read]
        for key in missing:
            if not isinstance(table, dict) or key not in table:
                self._problem(self._lines.of("checkpoint", index), f'{label}: "{key}" is missing')
        return None if missing else {key: value for key, value in read.items() if key != "verdict"}

    def _denial(self, index: int, table: Any) -> Denial | None:
        read = self._checkpoint(index, table, DENIAL)
        return None if read is None else Denial(**read, place=index)

    def _rule(self, index: int, table: Any, defaults: Defaults) -> _ReadRule | None:
        label = _label(index, table)
        if (read := self._checkpoint(index, table, CHECKPOINT)) is None:
            return None
        for key, problem in observation.problems(read, table, self._now):
            self._problem(self._lines.of("checkpoint", index, key), f"{label}: {problem}")
        mode, until = read.pop("mode", None), read.pop("observe_until", None)
        terms = defaults.terms() | read
        terms["on_reject"] = terms["on_reject"] or on_reject_by_risk(terms["risk"])
        rule = Rule(**terms)
        place = Written("checkpoint", index, label, table)
        self._check(place, rule)
        self._check_shown(place, rule)
        for key, problem in checkpoint_fields.problems(rule, given=self._has_grants):
            self._problem(self._lines.of("checkpoint", index, key), f"{label}: {problem}")
        return _ReadRule(rule, until if mode == observation.OBSERVE else None)

    def _table(
        self, name: str, index: int, label: str, table: Any, known: Mapping[str, Any]
    ) -> dict[str, Any]:
        if not isinstance(table, dict):
            self._problem(self._lines.of(name, index), f"{label}: must be a table")
            return {}
        read: dict[str, Any] = {}
        for key, value in table.items():
            line = self._lines.of(name, index, key)
            if key not in known:
                self._problem(line, f"{label}: {_unknown(key, known)}")
                continue
            try:
                read["timeout" if key == "timeout_seconds" else key] = known[key](value)
            except ValueError as error:
                self._problem(line, f'{label}: "{key}" {error}')
            if key == "email" and value and self._no_mail:
                self._problem(line, f'{label}: "email" cannot be enforced: {self._no_mail}')
        if "timeout" in read:
            read["timeout_written"] = True
        if "timeout" in table and "timeout_seconds" in table:
            line = self._lines.of(name, index, "timeout_seconds")
            self._problem(line, f'{label}: give "timeout" or "timeout_seconds", not both')
        return read

    def _check(self, place: Written, terms: Defaults | Rule) -> None:
        for key, problem in contradictions(place, terms):
            self._problem(self._lines.of(place.table, place.index, key), f"{place.label}: {problem}")

    def _check_shown(self, place: Written, rule: Rule) -> None:
        """Redacted values must not appear in descriptions, links or e-mails."""
        for key, paths in (
            ("description_template", placeholder_names(rule.description_template or "")),
            ("link_template", placeholder_names(rule.link_template or "")),
            ("email_facts", [("facts", *name.split(".")) for name in rule.email_facts]),
        ):
            for root, *steps in paths:
                if is_redacted(tuple(steps), rule.redact, root):
                    shown = ".".join((root, *steps))
                    line = self._lines.of(place.table, place.index, place.first(key))
                    self._problem(line, f'{place.label}: "{key}" would show {shown}, which "redact" hides')

    def _check_hidden(
        self,
        tables: list[Any],
        read: Sequence[_ReadRule | Denial | None],
        limits: Sequence[Limit],
    ) -> None:
        for index, each in enumerate(read):
            if isinstance(each, _ReadRule):
                label = _label(index, tables[index])
                for key, problem in card_fields.problems(each.rule, limits):
                    self._problem(self._lines.of("checkpoint", index, key), f"{label}: {problem}")

    def _refuse_duplicates(self, checkpoints: list[Any]) -> None:
        first: dict[str, int] = {}
        for index, table in enumerate(checkpoints):
            name = table.get("checkpoint_id") if isinstance(table, dict) else None
            if not isinstance(name, str):
                continue
            line = self._lines.of("checkpoint", index, "checkpoint_id")
            if name in first:
                self._problem(line, f'checkpoint "{name}": the id is already used in line {first[name]}')
            first.setdefault(name, line)

    def _problem(self, line: int, what: str) -> None:
        self.problems.append((line, f"{self._filename}:{line}: {what}"))


@dataclass(frozen=True)
class _ReadRule:
    rule: Rule
    observe_until: datetime | None


def _denies(table: Any) -> bool:
    return isinstance(table, dict) and table.get("verdict") == "deny"


def _split(read: Iterable[_ReadRule]) -> tuple[tuple[Rule, ...], tuple[ObservedRule, ...]]:
    rules: list[Rule] = []
    observed: list[ObservedRule] = []
    for each in read:
        if each.observe_until is not None:
            observed.append(ObservedRule(each.rule, each.observe_until, len(rules)))
        else:
            rules.append(each.rule)
    return tuple(rules), tuple(observed)


def _label(index: int, table: Any) -> str:
    name = table.get("checkpoint_id") if isinstance(table, dict) else None
    return f'checkpoint "{name}"' if isinstance(name, str) and name else f"checkpoint #{index + 1}"


def _unknown(key: str, known: Mapping[str, Any]) -> str:
    if known is DENIAL and key in observation.KEYS:
        return (
            f'"{key}" is not used with verdict = "deny"; try it with `signoff check replay`, or observe it as a '
            "checkpoint that asks"
        )
    if known is DENIAL and key in CHECKPOINT:
        return f'"{key}" is about asking people, and verdict = "deny" asks nobody'
    if known is CHECKPOINT and key in DENIAL:
        return f'"{key}" is used only with verdict = "deny"'
    elsewhere = CHECKPOINT if known is DEFAULTS else DEFAULTS
    if key in elsewhere:
        place = "[defaults]" if elsewhere is DEFAULTS else "a [[checkpoint]]"
        return f'"{key}" belongs in {place}'
    return f'unknown key "{key}"{meant(key, known)}'


def changed_checkpoints(before: str, after: str) -> frozenset[str] | None:
    """Ids of checkpoints whose text differs. ``None``: not comparable, so all changed."""
    try:
        old, new = (load(text, filename="policy") for text in (before, after))
    except PolicyError:
        return None
    if new.grants is None:
        return None
    kept = {rule.checkpoint_id: rule for rule in new.rules}
    return frozenset(each.checkpoint_id for each in old.rules if kept.get(each.checkpoint_id) != each)
