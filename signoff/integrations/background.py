"""Tools that return at once; approved actions run later, in threads of this process.

Pending calls are kept in LangGraph's store (`PostgresStore`), so a restarted process finds them. A sweep resumes them;
a `decision.made` webhook can `wake` it earlier.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

from signoff.integrations.extras import missing_framework

try:
    from langgraph.config import get_config
    from langgraph.store.base import BaseStore
except ImportError as error:
    raise missing_framework("LangGraph", "langgraph") from error

from signoff.canonical import canonical_bytes, plain_object
from signoff.client import Approval, ApprovalClient, Review, concluded
from signoff.client.facts import FactsFunction
from signoff.durations import Duration
from signoff.errors import AlreadyClaimed, ApiError, CollaborationError, Conflict, Unreachable
from signoff.sessions import checked_session, session_named

log = logging.getLogger("signoff.client")

NAMESPACE = ("signoff", "background")
PAGE = 100


@dataclass(frozen=True)
class BackgroundCall:
    """`arguments` are the decided ones, `asked` those of the question.

    `key` is the same for every attempt: pass it on. `cause` (`rejected`, `expired`, `withdrawn`, `denied` by policy),
    `reviewer` and `reason` describe a refusal; `notes` are the reviewers' notes on approval.
    """

    key: str
    action: str
    asked: Mapping[str, Any]
    arguments: Mapping[str, Any]
    cause: str | None = None
    reviewer: str | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BackgroundResult:
    """People are asked (`waiting`), or the `result` if no approval is needed."""

    waiting: bool
    result: Any = None


@dataclass(frozen=True)
class _Handler:
    run: Callable[[BackgroundCall], Any]
    refused: Callable[[BackgroundCall], Any] | None
    idempotent: bool
    lease: Duration | None
    facts: FactsFunction | None


class Background:
    """Asks people, and runs approved actions once, across restarts.

    `store` is synchronous, and processes may share it. `name` identifies this process: after a restart it resumes the
    work it began under that name, so the name must be unique and outlive its container. `every`: seconds between
    sweeps. Raises ValueError without a name.
    """

    def __init__(
        self,
        client: ApprovalClient,
        store: BaseStore,
        *,
        name: str,
        every: float = 2.0,
        threads: int = 4,
    ) -> None:
        if not name:
            raise ValueError(
                "Background needs a name that is unique among the processes sharing the store and never changes"
            )
        self._client = client
        self._store = store
        self._every = every
        self._name = name
        self._handlers: dict[str, _Handler] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._look, self._stopping = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="signoff")
        self._sweeper = threading.Thread(target=self._sweep_until_stopped, name="signoff-sweep", daemon=True)

    def handles(
        self,
        action: str,
        run: Callable[[BackgroundCall], Any],
        *,
        refused: Callable[[BackgroundCall], Any] | None = None,
        idempotent: bool = False,
        lease: Duration | None = None,
        facts: FactsFunction | None = None,
    ) -> None:
        """Register how to run this action. Call it before `start`, in every process.

        `refused` is called if the action will not run, possibly again after a crash. `idempotent`: `run` is called
        again after a crash; otherwise people are asked about the outcome, and an action that needed no approval is not
        retried.
        """
        self._handlers[action] = _Handler(run, refused, idempotent, lease, facts)

    def begin(self, key: str, action: str, arguments: Mapping[str, Any], **told: Any) -> BackgroundResult:
        """Submit a question without waiting. The same key and content again is the same call.

        `told` is `description`, `context`, `requester`, `agent` and `rationale` of `ApprovalClient.ask`, and `session`
        (default: the thread of the graph that calls this). While the service is unreachable the call is queued. Raises
        ApiError (403: policy denies it), Conflict (the key was used for something else), AlreadyClaimed (already
        started, or owned by another process), MalformedArguments, KeyError (no handler), and what `run` raises.
        """
        handler = self._handlers[action]
        session = checked_session(told.pop("session", None)) or _thread()
        value = {"action": action, "arguments": plain_object(arguments), "told": told}
        canonical_bytes(value)
        if not self._taken(key):
            return BackgroundResult(waiting=True)
        try:
            kept = self._keep(key, value, session)
            if not self._is_ours(kept, handler):
                words = f"the call {key!r} has already begun, or another process has it"
                raise AlreadyClaimed(409, "claimed", words)
            call = BackgroundCall(key, action, plain_object(arguments), plain_object(arguments))
            return self._submit(handler, call, kept)
        finally:
            self._release(key)

    def wake(self) -> None:
        self._look.set()

    def start(self) -> Self:
        """Sweep, beginning with what an earlier process left."""
        self._sweeper.start()
        return self

    def stop(self) -> None:
        """Stop after running actions have ended."""
        self._stopping.set()
        self._look.set()
        if self._sweeper.ident is not None:
            self._sweeper.join()
        self._pool.shutdown(wait=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _submit(self, handler: _Handler, call: BackgroundCall, kept: Mapping[str, Any]) -> BackgroundResult:
        try:
            told = {**kept["told"], "session": kept.get("session"), "facts": handler.facts}
            asked = self._client.submit(call.action, call.asked, key=call.key, **told)
            if isinstance(asked, Review):
                self._note(call.key, kept, by=None)
                return BackgroundResult(waiting=True)
            self._note(call.key, kept, begun=True)
        except Unreachable:
            return BackgroundResult(waiting=True)
        except Exception:
            self._store.delete(NAMESPACE, call.key)
            raise
        try:
            result = handler.run(call)
        except Exception:
            self._store.delete(NAMESPACE, call.key)
            raise
        self._store.delete(NAMESPACE, call.key)
        return BackgroundResult(waiting=False, result=result)

    def _keep(self, key: str, value: Mapping[str, Any], session: str | None) -> dict[str, Any]:
        """`by`: the owning process (None: people are asked); `begun`: whether the call started.

        The session is no content: earlier versions kept none.
        """
        found = self._store.get(NAMESPACE, key)
        if found is None:
            return self._note(key, value, by=self._name, begun=False, session=session)
        if canonical_bytes({name: found.value[name] for name in value}) != canonical_bytes(dict(value)):
            raise Conflict(f"the call {key!r} exists with other content")
        return found.value

    def _note(self, key: str, value: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        kept = {**value, **changes}
        if kept != value:
            self._store.put(NAMESPACE, key, kept, index=False)
        return kept

    def _is_ours(self, kept: Mapping[str, Any], handler: _Handler) -> bool:
        """Until people are asked, only ownership by process prevents two runs of a call."""
        return kept["by"] in (None, self._name) and (handler.idempotent or not kept["begun"])

    # --- the sweep ----------------------------------------------------------------------------------------

    def _sweep_until_stopped(self) -> None:
        while not self._stopping.is_set():
            self._look.clear()
            try:
                self._sweep()
            except Exception as error:  # the store or the service is unreachable
                log.warning("the sweep of waiting calls failed and will be retried: %s", error)
            self._look.wait(self._every)

    def _sweep(self) -> None:
        waiting: set[str] | None = None
        offset = 0
        while items := self._store.search(NAMESPACE, limit=PAGE, offset=offset):
            if waiting is None:
                waiting = {review.request_id for review in self._client.pending(limit=1_000_000)}
            for item in items:
                if (
                    item.key not in waiting
                    and item.value["action"] in self._handlers
                    and self._taken(item.key)
                ):
                    self._pool.submit(self._check, item.key, item.value)
            offset += PAGE

    def _check(self, key: str, value: Mapping[str, Any]) -> None:
        try:
            self._settle(key)
        except Exception as error:
            log.warning("%s of %s will be retried later: %s", key, value["action"], error)
        finally:
            self._release(key)

    def _settle(self, key: str) -> None:
        item = self._store.get(NAMESPACE, key)
        if item is None or not self._is_ours(item.value, self._handlers[item.value["action"]]):
            return
        value = item.value
        handler, asked = self._handlers[value["action"]], value["arguments"]
        call = BackgroundCall(key, value["action"], plain_object(asked), plain_object(asked))
        try:
            told = {**value["told"], "session": value.get("session"), "facts": handler.facts}
            found = self._client.submit(value["action"], asked, key=key, **told)
            if isinstance(found, Approval):
                self._note(key, value, begun=True)
                _unasked(handler, call)
            elif found.status == "waiting" or not self._run_approved(handler, call, found):
                return
        except ApiError as error:
            if error.kind != "denied":
                raise
            _refuse(handler, call, "denied", None, str(error))
        except CollaborationError as error:
            _refuse(handler, call, error.cause, error.reviewer, error.reason)
        self._store.delete(NAMESPACE, key)

    def _run_approved(self, handler: _Handler, call: BackgroundCall, review: Review) -> bool:
        """Return False if the call has not ended. Raises CollaborationError."""
        last = review.raw["execution"]
        again = last is not None and last["settled_as"] == "retry"
        if last is not None and not again:
            if last["status"] in ("succeeded", "failed") or last["settled_as"] == "done":
                return True
            if last["status"] != "claimed" or not handler.idempotent:
                return False  # elsewhere, or people settle its outcome
        decision = concluded(review, call.asked)
        number = 1 if last is None else last["attempt"] + again
        attempt = f"{self._name}:{review.id}:{number}" if handler.idempotent else None
        try:
            claim = self._client.claim(
                decision,
                lease=handler.lease,
                attempt=attempt,
                facts=handler.facts,
                timeout=None,
            )
        except AlreadyClaimed:
            return False
        except ApiError as error:
            if error.kind != "facts-changed":
                raise
            return False  # people are asked again under the same key
        decided = BackgroundCall(
            call.key,
            call.action,
            call.asked,
            claim.arguments,
            reviewer=decision.reviewer,
            notes=decision.notes,
        )
        began = time.monotonic()
        try:
            result = handler.run(decided)
        except Exception as error:
            log.exception("%s failed (request %s)", call.action, review.id)
            self._client.report(claim, error=error, seconds=time.monotonic() - began)
        else:
            self._client.report(claim, result, seconds=time.monotonic() - began)
        return True

    def _taken(self, key: str) -> bool:
        with self._lock:
            if key in self._busy or self._stopping.is_set():
                return False
            self._busy.add(key)
            return True

    def _release(self, key: str) -> None:
        with self._lock:
            self._busy.discard(key)


def _thread() -> str | None:
    """The conversation of the graph that runs this."""
    try:
        return session_named(get_config().get("configurable", {}).get("thread_id"))
    except RuntimeError:  # not in a graph
        return None


def _unasked(handler: _Handler, call: BackgroundCall) -> None:
    try:
        handler.run(call)
    except Exception:
        log.exception("%s failed (%s)", call.action, call.key)


def _refuse(
    handler: _Handler, call: BackgroundCall, cause: str, reviewer: str | None, reason: str | None
) -> None:
    if handler.refused is not None:
        told = (call.key, call.action, call.asked, call.arguments, cause, reviewer, reason)
        handler.refused(BackgroundCall(*told))
