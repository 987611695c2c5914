"""What follows a failed message: retry, post again, or give up and report."""

from __future__ import annotations

from uuid import UUID

from agent.database.pools import Database
from agent.domain.run import RunStatus
from agent.store import views
from agent.store.outbox import Destination
from agent.usecases import requests
from agent.usecases.due_messages import Closed, Dead, DueMessage, Gone, Outcome, Postponed, Unreached
from agent.usecases.undelivered import report_trouble
from signoff.backoff import Backoff
from signoff.description import bounded
from slackbot.slack_api.client import SlackError, SlackRefused
from slackbot.slack_api.directory import Directory
from slackbot.slack_api.error_codes import Meaning

FOR_SLACK = Backoff(first=1.0, longest=6.0)
FOR_PEOPLE = Backoff(first=1.0, longest=60.0)
UNKNOWN = Backoff(first=1.0, longest=300.0)
"""Between attempts: while Slack is unavailable, or people must fix something; for an unknown reason."""

REPORT_AFTER = 60.0
"""Seconds of attempts until operators are notified, and until a message that nobody needs is given up."""

_PAUSES = {
    Meaning.CHANNEL: FOR_PEOPLE,
    Meaning.TOKEN: FOR_PEOPLE,
    Meaning.SUSPENDED: FOR_PEOPLE,
    Meaning.CLOSED: UNKNOWN,
    Meaning.UNKNOWN: UNKNOWN,
}
_DELETED = "message_not_found"
_REPORTED_AT_ONCE = {Meaning.TOKEN, Meaning.SUSPENDED, Meaning.CLOSED, Meaning.UNKNOWN}


class ChannelClosed(SlackError):
    """Posting here is not allowed; the message is a sentence."""

    meaning = Meaning.CHANNEL


class DrawingFailed(SlackError):
    """Our own error; Slack may have accepted the message before."""

    meaning = Meaning.UNKNOWN

    def __init__(self, cause: Exception) -> None:
        super().__init__(bounded(f"{type(cause).__name__}: {cause}", 300), taken=True)


class Failures:
    """A handler of failed messages that decides whether one is tried again, posted anew or given up."""

    def __init__(self, db: Database, directory: Directory, admin: Destination | None, pace: float) -> None:
        self._db = db
        self._directory = directory
        self.admin = admin
        self._pace = pace

    async def outcome(self, due: DueMessage, error: SlackError) -> Outcome:
        """The outcome to store. The channel pauses, because Slack counts refused calls."""
        if isinstance(error, SlackRefused) and error.meaning is Meaning.MESSAGE:
            return Dead(due, error.code, self._pace, self.admin)
        if isinstance(error, SlackRefused) and error.meaning is Meaning.CLOSED:
            return await self._replace(due, error)
        if self.admin is not None and self.admin != due.destination and _is_unseen_for_good(due, error):
            return Unreached(due, 0.0, await self._trouble(due, _cause(error)), self.admin)
        return await self._postpone(due, error)

    async def _replace(self, due: DueMessage, error: SlackRefused) -> Outcome:
        """Post again a card, a digest or a continuing run's root; of other cards, tell the outcome."""
        if due.newer_digest is not None:
            return Gone(due, False, self._pace)
        if due.run_id and due.kind in ("run_root", "run_line"):
            return Gone(due, due.kind == "run_line" or await self._is_active(due.run_id), self._pace)
        needed = due.kind == "digest" or await self._needs_people(due)
        if due.ts is not None and needed:
            return Gone(due, True, self._pace)
        if due.kind == "thread_line" and due.request_id:
            if not needed:
                return Gone(due, False, self._pace)
            # The line follows in the new card's thread.
            await requests.redraw_card(self._db, due.request_id)
        if due.ts is None:
            return await self._postpone(due, error)
        # Nobody needs a deleted card any more. One that only cannot be changed still shows buttons.
        return Gone(due, False, self._pace) if error.code == _DELETED else Closed(due, self._pace)

    async def _is_active(self, run_id: UUID) -> bool:
        run = await self._db.read(views.run_view, run_id)
        return run is not None and run.status in (RunStatus.WORKING, RunStatus.PENDING_APPROVAL)

    async def _needs_people(self, due: DueMessage) -> bool:
        if due.request_id is None:
            return False
        view = await self._db.read(views.request_view, due.request_id)
        return view is not None and view.needs_people

    async def _postpone(self, due: DueMessage, error: SlackError) -> Postponed:
        """Back off: 1, 2, 4 … seconds, or Slack's Retry-After for all such messages in the channel."""
        words = _cause(error)
        # Report first: after a crash in between, the next attempt still reports it.
        if error.meaning is Meaning.CHANNEL:
            await report_trouble(self._db, due, await self._trouble(due, words), self.admin)
        elif _just_overdue(due, error) or (error.meaning in _REPORTED_AT_ONCE and due.error != words):
            await report_trouble(self._db, due, words, self.admin)
        # Updates can be repeated, so only a post is ambiguous.
        ambiguous = (error.taken and due.ts is None) or due.ambiguous
        if error.seconds:
            return Postponed(due, words, 0.0, pause=error.seconds, ambiguous=ambiguous)
        refused = error.meaning in (Meaning.CHANNEL, Meaning.UNKNOWN)
        seconds = _wait(due.attempts, error)
        return Postponed(due, words, seconds, pause=self._pace, ambiguous=ambiguous, refused=refused)

    async def _trouble(self, due: DueMessage, words: str) -> str:
        """Use the same words whether Slack refused or our check found the problem."""
        channel_id = due.destination.channel_id
        self._directory.forget(channel_id)
        try:
            return await self._directory.channel_problem(channel_id) or words
        except (SlackError, TimeoutError):
            return words


def _is_unseen_for_good(due: DueMessage, error: SlackError) -> bool:
    """Nobody can decide it any more, so it need not wait until people have mended its channel."""
    refused = isinstance(error, SlackRefused) and error.meaning is Meaning.UNKNOWN
    return due.unseen and (
        error.meaning is Meaning.CHANNEL or (refused and _tried_for(due, error) >= REPORT_AFTER)
    )


def _wait(attempts: int, error: SlackError) -> float:
    return _PAUSES.get(error.meaning, FOR_SLACK).after(attempts + 1)


def _tried_for(due: DueMessage, error: SlackError) -> float:
    """Seconds of our own waits, so that the limit holds whatever the waits are."""
    return sum(_wait(attempt, error) for attempt in range(due.attempts))


def _just_overdue(due: DueMessage, error: SlackError) -> bool:
    """True for one attempt, so operators are notified once."""
    return 0 <= _tried_for(due, error) - REPORT_AFTER < _wait(due.attempts - 1, error)


def _cause(error: SlackError) -> str:
    """One code is one cause, whatever the method: operators are notified once."""
    if isinstance(error, SlackRefused) and error.meaning is Meaning.UNKNOWN:
        return f"Slack answers with the error {error.code}; Signoff tries again"
    return str(error)
