"""The steps of the gate: ask, wait, claim, run, report."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from signoff.canonical import canonical_bytes
from signoff.client import Approval, ApprovalClient, ClaimedAction, Review, concluded
from signoff.client.facts import FactsFunction
from signoff.errors import (
    AlreadyClaimed,
    ApiError,
    CollaborationError,
    Conflict,
    FactsFailed,
    MalformedArguments,
    SignoffError,
    Unreachable,
)
from signoff.gate.run_command import StopSignal, deferred, environment_of, interruptible, run_command
from signoff.values import COMMAND

FIRST_LOOK = 1.5
"""Seconds until a request is read again to find where its card was posted."""


class ExitCode(IntEnum):
    """From sysexits(3), if the command did not run."""

    UNAVAILABLE = 69  # EX_UNAVAILABLE
    NOBODY = 75  # EX_TEMPFAIL
    ALREADY_STARTED = 76
    REFUSED = 77  # EX_NOPERM
    CHANGED = 78


class GateClosed(Exception):
    """An error that keeps the command from running, with the gate's exit code and words for the user."""

    def __init__(self, code: int, *words: str) -> None:
        super().__init__(*words)
        self.code = code


@dataclass(frozen=True)
class GateQuestion:
    """``keeps``: the question survives a time-out here (its key is the user's)."""

    action: str
    arguments: dict[str, Any]
    key: str
    keeps: bool
    more: dict[str, Any] = field(default_factory=dict)
    facts: FactsFunction | None = None


class _AskedAgain(Exception):
    """Facts differ from the approved ones."""


@dataclass(frozen=True)
class Gate:
    """``say`` prints a line to the log."""

    client: ApprovalClient
    question: GateQuestion
    say: Callable[[str], None]

    # --- asking -------------------------------------------------------------------------------------------

    def decision(self, seconds: float | None) -> Approval:
        """Raises GateClosed unless the command may run."""
        question = self.question
        with interruptible():
            try:
                asked = self.client.submit(
                    question.action,
                    question.arguments,
                    key=question.key,
                    facts=question.facts,
                    patience=30.0 if seconds is None else max(1.0, seconds),
                    **question.more,
                )
                if isinstance(asked, Approval):
                    return asked
                return concluded(self._waited(asked, seconds), question.arguments)
            except StopSignal as stop:
                raise GateClosed(128 + stop.signal, self._withdrawn()) from None
            except CollaborationError as error:
                silence = error.cause == "expired" and error.reviewer is None
                raise GateClosed(ExitCode.NOBODY if silence else ExitCode.REFUSED, str(error)) from None
            except MalformedArguments as error:
                raise SignoffError(str(error)) from None
            except Conflict as error:
                raise SignoffError(
                    f"--key {question.key} was already used for another question: {error}; every start with this key "
                    "must have the same action, arguments, description, context and command line"
                ) from None
            except ApiError as error:
                code = ExitCode.REFUSED if error.kind == "denied" else ExitCode.UNAVAILABLE
                raise GateClosed(code, str(error)) from None
            except Unreachable as error:
                words = f"{error}; the state of the request is unknown"
                raise GateClosed(ExitCode.UNAVAILABLE, words) from None

    def _waited(self, asked: Review, seconds: float | None) -> Review:
        """Raises GateClosed on time-out, and the client's errors."""
        deadline = None if seconds is None else time.monotonic() + seconds
        if asked.status == "waiting":
            self.say(f"waiting for people to decide: {asked.description} (request {asked.id})")
        shown = self._show_place(asked, None)
        wait = FIRST_LOOK
        while asked.status == "waiting":
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return self._give_up(asked)
            asked = self.client.get(asked.id, wait=wait if left is None else min(wait, left))
            shown = self._show_place(asked, shown)
            if shown:  # otherwise the card is about to be posted
                wait = max(FIRST_LOOK, (asked.expires_at - datetime.now(UTC)).total_seconds() + 1.0)
        return asked

    def _show_place(self, asked: Review, shown: str | None) -> str | None:
        place = asked.raw.get("slack_url") or asked.raw.get("url")
        if asked.status == "waiting" and place and place != shown:
            self.say(f"decide at {place}")
        return place or shown

    def _give_up(self, asked: Review) -> Review:
        """Somebody may decide at the same moment."""
        late = "nobody has decided in time"
        if self.question.keeps:
            raise GateClosed(
                ExitCode.NOBODY, f"{late}; the request stays open under --key {self.question.key}"
            )
        try:
            self.client.withdraw(asked.id, patience=5.0)
        except Conflict:
            return self.client.get(asked.id)
        except (ApiError, Unreachable) as error:
            raise GateClosed(
                ExitCode.NOBODY, f"{late}; the request could not be withdrawn: {error}"
            ) from None
        raise GateClosed(ExitCode.NOBODY, f"{late}; the request was withdrawn")

    def _withdrawn(self) -> str:
        """Works while the question is still on its way. Returns the text for the log."""
        deadline = time.monotonic() + 5.0
        while True:
            try:
                self.client.withdraw(self.question.key, patience=5.0)
            except Conflict as error:
                return f"stopped; nothing was run, and nothing is left to withdraw: {error}"
            except (ApiError, Unreachable) as error:
                if getattr(error, "status", None) == 404 and time.monotonic() < deadline:
                    time.sleep(0.5)
                    continue
                return f"stopped; the request could not be withdrawn: {error}"
            return "stopped; the request was withdrawn"

    # --- running ------------------------------------------------------------------------------------------

    def run_without_approval(self, command: list[str]) -> int:
        self.say(f"policy needs nobody's approval for {self.question.action}")
        with deferred() as stopped:
            return run_command(command, environment_of(self.question.arguments), stopped).code

    def run_approved(
        self,
        command: list[str],
        approval: Approval,
        accept_edits: bool,
        lease_seconds: float,
        seconds: float | None,
    ) -> int:
        """Raises GateClosed if the command may not start.

        If the facts have changed, people are asked again, with the same time to answer.
        """
        while True:
            try:
                return self._run_claimed(command, approval, accept_edits, lease_seconds)
            except _AskedAgain:
                self.say("asked again: the facts or the policy have changed since it was approved")
                approval = self.decision(seconds)

    def _run_claimed(
        self, command: list[str], approval: Approval, accept_edits: bool, lease_seconds: float
    ) -> int:
        with deferred() as stopped:
            claim = self._claim(approval, lease_seconds)
            changed = canonical_bytes(dict(claim.arguments)) != canonical_bytes(self.question.arguments)
            try:
                environment = environment_of(claim.arguments)
                _check_start(command, claim, changed and not accept_edits, stopped)
            except (GateClosed, SignoffError) as shut:
                self._report(claim, error=f"not run: {shut}")
                raise
            # The approval's arguments have their secrets masked: many people read CI logs.
            with_what = f", with {json.dumps(dict(approval.arguments))}" if changed else ""
            self.say(f"approved{approval.by}{with_what}")
            for note in approval.notes:
                self.say(f"note of a reviewer: {note}")
            named = {"SIGNOFF_REQUEST_ID": claim.id, "SIGNOFF_IDEMPOTENCY_KEY": claim.idempotency_key}
            ran = run_command(command, environment | named, stopped)
        how = {"error" if ran.code else "result": ran.words}
        self._report(claim, **how, seconds=ran.seconds)
        return ran.code

    def _claim(self, approval: Approval, lease_seconds: float) -> ClaimedAction:
        try:
            return self.client.claim(approval, lease=lease_seconds, facts=self.question.facts, timeout=None)
        except AlreadyClaimed as error:
            words = f"an earlier start with this --key has already begun: {error}"
            raise GateClosed(ExitCode.ALREADY_STARTED, words) from None
        except FactsFailed as error:
            raise GateClosed(ExitCode.REFUSED, f"it was approved but may not begin: {error}") from None
        except ApiError as error:
            if error.kind == "facts-changed":
                raise _AskedAgain from None
            code = ExitCode.REFUSED if error.status == 409 else ExitCode.UNAVAILABLE
            raise GateClosed(code, f"it was approved but may not begin: {error}") from None
        except Unreachable as error:
            raise GateClosed(ExitCode.UNAVAILABLE, f"{error}; nothing was run") from None

    def _report(self, claim: ClaimedAction, **how: Any) -> None:
        """A failed report must not hide how the command ended."""
        try:
            self.client.report(claim, **how)
        except SignoffError as error:
            self.say(f"could not report the outcome; people will be asked for it: {error}")


def _check_start(
    command: list[str], claim: ClaimedAction, forbidden_change: bool, stopped: list[int]
) -> None:
    """Raises GateClosed."""
    if claim.arguments.get(COMMAND) != command:
        raise GateClosed(ExitCode.CHANGED, "the approved command is not the one given here")
    if forbidden_change:
        words = "a reviewer changed the arguments; use --accept-edits to accept changes"
        raise GateClosed(ExitCode.CHANGED, words)
    if stopped:
        raise GateClosed(128 + stopped[0], "stopped before the command began")
