"""A hook's steps. Anything but an approval is a denial."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signoff.canonical import canonical_bytes
from signoff.client import Approval, ApprovalClient, ClaimedAction, Review, concluded
from signoff.client.handover import hand_over
from signoff.errors import CollaborationError, Conflict, SignoffError
from signoff.formats import approval_notes
from signoff.gate.coding_agents import CodingAgent, Permission, ToolCall
from signoff.masks import has_mask
from signoff.sessions import session_named
from signoff.values import FOLDER

PATIENCE = 30.0
"""Seconds that Signoff may be unreachable while asking."""

HANDOVER_PATIENCE = 6.0
"""Seconds for each of claim and report: the agent waits no longer."""

_OTHER = "what people decided is about another call (request {})"


@dataclass(frozen=True)
class HookSteps:
    """`deadline` for the answer is monotonic."""

    client: ApprovalClient
    agent: CodingAgent
    call: ToolCall
    deadline: float

    def permission(self) -> Permission:
        """Ask, or resume an earlier question. Raises SignoffError, also for denials."""
        with open_question(self.call.digest) as question:
            asked = self._asked(question.key)
            if isinstance(asked, Review) and (_is_over(asked) or not self._is_about_this(asked)):
                question.renew()
                asked = self._asked(question.key)
            if isinstance(asked, Approval):
                question.close()
                return Permission("none")
            if asked.status == "waiting":
                asked = self.client.get(asked.id, wait=self._left(), patience=1.0)
            if asked.status == "waiting":
                return Permission("deny", _later(asked))
            if not self._is_about_this(asked):
                return Permission("deny", _OTHER.format(asked.id))
            try:
                permission = self._handed_over(concluded(asked))
            except CollaborationError as refusal:
                return Permission("deny", f"do not do it in another way: it was {refusal}")
            question.close()
            return permission

    def _asked(self, key: str) -> Review | Approval:
        question, patience = self.call.question, min(PATIENCE, max(1.0, self._left()))
        try:
            return self.client.submit(
                self.call.tool,
                question,
                context=self._context,
                key=key,
                session=session_named(self.call.session),
                patience=patience,
            )
        except Conflict:  # the same command, described differently by the model
            return self.client.get(key, patience=1.0)

    @property
    def _context(self) -> dict[str, str]:
        return {
            "coding_agent": self.agent.title,
            "session": self.call.session,
            "folder": self.call.folder,
        }

    def _is_about_this(self, asked: Review) -> bool:
        """The agent may have asked under this name itself, with another session or folder on the card.

        The claim has the arguments in full, and is compared with them.
        """
        shown = asked.raw.get("agent_context")
        if asked.action != self.call.tool or not isinstance(shown, dict):
            return False
        masked = {name: value for name, value in shown.items() if name == "folder" and has_mask(str(value))}
        return shown == self._context | masked

    def _handed_over(self, approval: Approval) -> Permission:
        by = f"Signoff: approved{approval.by}"
        notes = tuple(approval_notes([each]) for each in approval.notes)
        if not self.call.is_where_it_was:
            return Permission("deny", f"{self.call.cwd} leads to another directory since people were asked")
        if approval.edited and not self.agent.takes_changes:
            claim = self.client.claim(approval, timeout=None, patience=HANDOVER_PATIENCE)
            self._report_unused(claim)
            return Permission("deny", _changed(self.call.question, approval))
        wait = self._left() or None  # if facts have changed, people are asked again
        claim = self.client.do(hand_over(approval, timeout=wait, patience=HANDOVER_PATIENCE))
        if not self._is_this(claim) or not self.call.is_where_it_was:
            return Permission("deny", _OTHER.format(claim.id))
        arguments = {name: value for name, value in claim.arguments.items() if name != FOLDER}
        return Permission("allow", by, arguments, notes)

    def _is_this(self, claim: ClaimedAction) -> bool:
        if claim.action != self.call.tool or claim.arguments.get(FOLDER) != self.call.folder:
            return False
        if claim.edited:
            return self.agent.takes_changes
        approved, asked = map(self.call.without_phrasing, (claim.arguments, self.call.question))
        return canonical_bytes(approved) == canonical_bytes(asked)

    def _report_unused(self, claim: ClaimedAction) -> None:
        why = f"not run: a reviewer changed the arguments, and hooks of {self.agent.title} cannot"
        try:
            self.client.report(claim, error=why, patience=HANDOVER_PATIENCE)
        except SignoffError:  # then people are asked what happened: nothing ran
            return

    def _left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())


def _is_over(asked: Review) -> bool:
    """A rejection lasts for the session: the same call is not asked about again."""
    if asked.status != "approved":
        return asked.status in ("expired", "cancelled")
    attempt = asked.raw["execution"]
    return asked.lapsed or not (attempt is None or attempt["settled_as"] == "retry")


def _later(asked: Review) -> str:
    place = asked.raw.get("slack_url") or asked.raw.get("url")
    where = f" at {place}" if place else ""
    return (
        f"nobody has decided yet{where} (request {asked.id}). Make exactly the same call again later, to pick up the "
        "decision; do not do it in another way."
    )


def _changed(before: Mapping[str, Any], approval: Approval) -> str:
    """Secrets are masked."""
    now = dict(approval.arguments)
    changes = [
        f"{name}: {json.dumps(now[name], ensure_ascii=False) if name in now else 'left out'}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name) or (name in before) != (name in now)
    ]
    return (
        f"it was approved{approval.by} with other arguments, which this hook cannot set: {'; '.join(changes)} "
        f"(request {approval.id}). Make the call with these arguments."
    )


_LONGEST = 200


class OpenQuestion:
    """A key of a call's question, kept in a file until the question is closed; without a file, not kept."""

    def __init__(self, path: Path, file: int | None) -> None:
        kept = "" if file is None else os.read(file, _LONGEST).decode("ascii", "replace")
        self._path, self._file = path, file
        self.key = kept
        if not re.fullmatch(rf"hook-{path.name}-[0-9a-f]{{32}}", kept):
            self.renew()

    def renew(self) -> None:
        self.key = f"hook-{self._path.name}-{secrets.token_hex(16)}"
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self.key.encode(), 0)

    def close(self) -> None:
        """The tool may run, so the same call is a new question next time."""
        if self._file is not None:
            os.ftruncate(self._file, 0)  # for processes that already opened it
            self._path.unlink(missing_ok=True)


@contextmanager
def open_question(digest: str) -> Iterator[OpenQuestion]:
    """A separate question if another process waits for the same call."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "signoff" / "hook" / digest
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield OpenQuestion(path, None)
        else:
            yield OpenQuestion(path, file)
    finally:
        os.close(file)
