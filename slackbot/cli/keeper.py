"""Who keeps the gate: asks, waits, claims, lets the command run, reports. One function for each way to its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from functools import partial
from typing import Any

import typer

from signoff.canonical import canonical_bytes
from signoff.client import Approval, ApprovalClient, ClaimedAction, Review, concluded
from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    CollaborationError,
    Conflict,
    MalformedArguments,
    SignoffError,
    Unreachable,
)
from slackbot.cli import gated, terminal
from slackbot.secrets import clean_now

FIRST_LOOK = 1.5
"""Seconds after which a request is looked at again for where its card was posted."""


class Exit(IntEnum):
    """How the gate itself ends; where the command ran, its own exit code is the gate's. See sysexits(3)."""

    UNAVAILABLE = 69  # EX_UNAVAILABLE
    NOBODY = 75  # EX_TEMPFAIL
    BEGUN = 76
    REFUSED = 77  # EX_NOPERM
    CHANGED = 78


class Ended(Exception):
    """The gate stays shut."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(*words)
        self.code = code


@dataclass(frozen=True)
class Question:
    """What is asked; ``key`` is its name, ``keeps`` whether it outlives a time-out here (it was given by hand)."""

    action: str
    arguments: dict[str, Any]
    key: str
    keeps: bool
    more: dict[str, Any] = field(default_factory=dict)


# --- asking -----------------------------------------------------------------------------------------------


def decision(client: ApprovalClient, question: Question, seconds: float | None) -> Approval:
    """Ask and wait. Raises Ended unless it may go ahead."""
    with gated.interruptible():
        try:
            asked = client.submit(
                question.action,
                question.arguments,
                key=question.key,
                patience=30.0 if seconds is None else max(1.0, seconds),
                **question.more,
            )
            if isinstance(asked, Approval):
                return asked
            return concluded(_waited(client, asked, seconds, question), question.arguments)
        except gated.Interrupted as interrupted:
            raise Ended(128 + interrupted.signal, _withdrawn(client, question)) from None
        except CollaborationError as error:
            code = Exit.NOBODY if error.cause == "expired" and error.reviewer is None else Exit.REFUSED
            raise Ended(code, str(error)) from None
        except MalformedArguments as error:
            raise SignoffError(str(error)) from None
        except Conflict as error:
            raise SignoffError(
                f"--key {question.key} stands for something else: {error}; every start under it has to have the same "
                "action, arguments, description, context and command line"
            ) from None
        except ApiError as error:
            raise Ended(Exit.REFUSED if error.kind == "denied" else Exit.UNAVAILABLE, str(error)) from None
        except Unreachable as error:
            raise Ended(Exit.UNAVAILABLE, f"{error}; nothing is known of the request") from None


def _waited(client: ApprovalClient, asked: Review, seconds: float | None, question: Question) -> Review:
    """The request, decided. Raises Ended when nobody does so in time, and what the client raises."""
    deadline = None if seconds is None else time.monotonic() + seconds
    if asked.status == "waiting":
        say(f"waiting for people to decide: {asked.description} (request {asked.id})")
    shown = _where(asked, None)
    wait = FIRST_LOOK
    while asked.status == "waiting":
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return _given_up(client, asked, question)
        asked = client.get(asked.id, wait=wait if left is None else min(wait, left))
        shown = _where(asked, shown)
        if shown:  # else look again soon: the card is on its way
            wait = max(FIRST_LOOK, (asked.expires_at - datetime.now(UTC)).total_seconds() + 1.0)
    return asked


def _where(asked: Review, shown: str | None) -> str | None:
    """Say where people decide, as soon as that is known, and once."""
    place = asked.raw.get("slack_url") or asked.raw.get("url")
    if asked.status == "waiting" and place and place != shown:
        say(f"decide at {place}")
    return place or shown


def _given_up(client: ApprovalClient, asked: Review, question: Question) -> Review:
    """Nobody decided in time: take the question back unless it has a key. Somebody may decide at this very moment."""
    if question.keeps:
        raise Ended(Exit.NOBODY, f"nobody has decided in time; it goes on waiting under --key {question.key}")
    try:
        client.withdraw(asked.id, patience=5.0)
    except Conflict:
        return client.get(asked.id)
    except (ApiError, Unreachable) as error:
        raise Ended(Exit.NOBODY, f"nobody has decided in time; it could not be withdrawn: {error}") from None
    raise Ended(Exit.NOBODY, "nobody has decided in time; the request was withdrawn")


def _withdrawn(client: ApprovalClient, question: Question) -> str:
    """Take the question back, though it may be on its way still; returns what to say of that."""
    deadline = time.monotonic() + 5.0
    while True:
        try:
            client.withdraw(question.key, patience=5.0)
        except Conflict as error:
            return f"stopped; nothing was run, and nothing is left to withdraw: {error}"
        except (ApiError, Unreachable) as error:
            if getattr(error, "status", None) == 404 and time.monotonic() < deadline:
                time.sleep(0.5)
                continue
            return f"stopped; the request could not be withdrawn: {error}"
        return "stopped; the request was withdrawn"


# --- running ----------------------------------------------------------------------------------------------


def unasked(command: list[str], question: Question) -> int:
    """Run what the checkpoints let run without anybody's word, and say that they do."""
    say(f"policy needs nobody's approval for {question.action}")
    with gated.deferred() as stopped:
        return gated.run(command, gated.variables(question.arguments), stopped).code


def approved(
    client: ApprovalClient,
    command: list[str],
    question: Question,
    decision: Approval,
    accept_edits: bool,
    lease_seconds: float,
) -> int:
    """Claim, run, report. Raises Ended when it may not begin."""
    with gated.deferred() as stopped:
        try:
            claimed = client.claim(decision, lease_seconds=lease_seconds)
        except AlreadyClaimed as error:
            raise Ended(Exit.BEGUN, f"an earlier start has begun with it already: {error}") from None
        except ApiError as error:
            code = Exit.REFUSED if error.status == 409 else Exit.UNAVAILABLE
            raise Ended(code, f"it was approved but may not begin: {error}") from None
        except Unreachable as error:
            raise Ended(Exit.UNAVAILABLE, f"{error}; nothing was run") from None
        report = partial(_reported, client, claimed)
        changed = canonical_bytes(dict(claimed.arguments)) != canonical_bytes(question.arguments)
        try:
            variables = gated.variables(claimed.arguments)
            _may_begin(changed and not accept_edits, stopped)
        except (Ended, SignoffError) as shut:
            report(error=f"not run: {shut}")
            raise
        who = f" by {decision.reviewer}" if decision.reviewer else ""
        # those of the decision: their secrets are masked, and logs of CI jobs are read by many
        with_what = f", with {terminal.as_json(dict(decision.arguments))}" if changed else ""
        say(f"approved{who}{with_what}")
        named = {"SIGNOFF_REQUEST_ID": claimed.id, "SIGNOFF_IDEMPOTENCY_KEY": claimed.idempotency_key}
        ran = gated.run(command, variables | named, stopped)
    if ran.code == 0:
        report(result=ran.words, seconds=ran.seconds)
    else:
        report(error=ran.words, seconds=ran.seconds)
    return ran.code


def _may_begin(forbidden_change: bool, stopped: list[int]) -> None:
    """Raises Ended where what was claimed is not begun after all."""
    if forbidden_change:
        words = "a reviewer changed the arguments, and this gate takes no changes (--accept-edits)"
        raise Ended(Exit.CHANGED, words)
    if stopped:
        raise Ended(128 + stopped[0], "stopped before the command began")


def _reported(client: ApprovalClient, claimed: ClaimedAction, **how: Any) -> None:
    """Report, and never let a report that fails hide how the command ended."""
    try:
        client.report(claimed, **how)
    except SignoffError as error:
        say(f"could not report how it went; people will be asked: {error}")


def say(words: str) -> None:
    typer.echo(f"signoff: {clean_now(terminal.line(words), assigned=False)}", err=True)
