"""DBOS workflows that wait for people. A webhook wakes them; a sweep is the fallback.

    approvals = DBOSApprovals(os.environ["SIGNOFF_URL"], os.environ["SIGNOFF_KEY"])

    @DBOS.workflow()
    def tidy(table_name: str, count: int) -> str:
        asked = {"table_name": table_name, "count": count}
        decision = approvals.await_approval("delete_records", asked, timeout=86_400)
        return approvals.perform(decision, delete_records)

A recovered workflow finds its request again by workflow and step. `DBOS.recv` waits without a connection of ours. A
message only wakes the workflow, which asks Signoff itself for the decision: a forged, late or duplicate message decides
nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

from signoff.client import Approval, ApprovalClient, ClaimedAction, Review, concluded
from signoff.client.facts import FactsOrFunction
from signoff.client.operations import as_judged
from signoff.client.validated import check_read
from signoff.client.waiting_line import say_waiting
from signoff.client.webhook import is_from_signoff
from signoff.durations import Duration, seconds_of
from signoff.errors import AlreadyClaimed, ApiError, CollaborationError, Conflict, SignoffError
from signoff.integrations.dbos_effects import (
    PATIENCE,
    Wait,
    WorkflowEvent,
    WorkflowMessage,
    WorkflowStep,
    awaited,
    blocking,
    one_step,
)
from signoff.integrations.extras import missing_framework
from signoff.sessions import session_named

try:
    from dbos import DBOS
    from dbos import error as dbos_error
except ImportError as missing:
    raise missing_framework("DBOS", "dbos") from missing


log = logging.getLogger("signoff.dbos")

R = TypeVar("R")

WAITING = "signoff:"
"""Prefix of the event that names a waiting workflow's request (None: no longer waiting)."""

BEGUN = "signoff.begun:"
"""Prefix of the event that a step has begun what needed no approval."""


class NotFromSignoff(SignoffError):
    """A webhook without a valid, recent signature. Answer with 401 and do nothing."""


@dataclass(frozen=True)
class _AskedAgain:
    """A `perform` step's claim found facts other than those approved."""

    request: str


class DBOSApprovals:
    """Approvals for one DBOS application, with a key of scope `request`.

    Without a `webhook_secret` (printed by `signoff webhooks add`) only the sweep wakes workflows. Raises ValueError for
    an invalid address or key.
    """

    def __init__(self, url: str, key: str, *, webhook_secret: str | None = None) -> None:
        self._client = ApprovalClient(url, key)
        self._secret = webhook_secret

    def await_approval(
        self,
        action: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        **more: Any,
    ) -> Approval:
        """Ask people within a workflow and wait, across restarts.

        ``more``: `description`, `context`, `requester`, `agent`, `rationale`, `session` (default: the workflow's id)
        and `facts` of `ApprovalClient.ask`. Without ``timeout`` it waits as long as the request is open. Raises
        CollaborationError if people reject it or nobody answers in time (cause `expired`; the request is then
        withdrawn), and ApiError (403: policy denies it).
        """
        return blocking(self._waiting(action, as_judged(arguments), timeout, more))

    async def await_approval_async(
        self,
        action: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        **more: Any,
    ) -> Approval:
        """`await_approval` for a coroutine workflow."""
        return await awaited(self._waiting(action, as_judged(arguments), timeout, more))

    def perform(
        self,
        decision: Approval,
        function: Callable[..., R],
        *,
        idempotent: bool = False,
        lease: Duration | None = None,
        facts: FactsOrFunction = None,
    ) -> R:
        """Claim the approval, call the function with the decided arguments, report: one step of the workflow.

        A question without an action has no arguments. If the process dies during the step, AlreadyClaimed ends the
        recovered workflow, and people settle the outcome if they approved it; only an ``idempotent`` function is
        called again. If ``facts`` now differ from those approved, people are asked again, and the workflow waits as
        long as their request is open. Raises what the function and `ApprovalClient.claim` raise, and MalformedArguments
        if the function (under `validate_call`) would convert what was decided.
        """
        return blocking(self._performing(decision, function, idempotent, lease, facts))

    async def perform_async(
        self,
        decision: Approval,
        function: Callable[..., R],
        *,
        idempotent: bool = False,
        lease: Duration | None = None,
        facts: FactsOrFunction = None,
    ) -> R:
        """`perform` for a coroutine workflow; the function is synchronous and runs in a thread."""
        return await awaited(self._performing(decision, function, idempotent, lease, facts))

    def hear(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Handle a webhook (`decision.made`); returns whether it woke a workflow.

        Raises NotFromSignoff. Other programs' requests are ignored.
        """
        if self._secret is None or not is_from_signoff(self._secret, headers, body):
            raise NotFromSignoff("this webhook was not signed with our secret within the last five minutes")
        notification = json.loads(body)
        request = notification.get("request") if notification.get("event") == "decision.made" else None
        return request is not None and _wake(str(request["request_id"]), str(request["id"]))

    async def hear_async(self, headers: Mapping[str, str], body: bytes) -> bool:
        """`hear` for an async endpoint."""
        return await asyncio.to_thread(self.hear, headers, body)

    def sweep(self) -> int:
        """Wake the workflows whose requests are decided; returns how many.

        Call it every minute, in case a webhook was lost. An approval whose workflow ended without `perform` is reported
        as handed over, so that it does not lapse.
        """
        return blocking(one_step("signoff.sweep", self._sweep))

    # --- parts ----------------------------------------------------------------------------------------------

    def _waiting(
        self, action: str | None, arguments: dict[str, Any], timeout: Duration | None, more: Mapping[str, Any]
    ) -> Wait[Approval]:
        if DBOS.workflow_id is None:
            raise SignoffError(
                "await_approval waits within a @DBOS.workflow; elsewhere there is ApprovalClient.ask"
            )
        seconds = None if timeout is None else seconds_of(timeout)
        asked = yield WorkflowStep("signoff.ask", lambda: self._ask(action, arguments, seconds, more))
        if asked["review"] is None:
            return Approval("not_required", str(action), arguments, asked["key"])
        return (yield from self._approved(asked, arguments))

    def _approved(self, asked: dict[str, Any], arguments: Mapping[str, Any]) -> Wait[Approval]:
        key, request = asked["key"], asked["review"]["id"]
        if asked["left"] > 0:
            yield WorkflowEvent(WAITING + key, request)
            while asked["left"] > 0:
                yield WorkflowMessage(key, asked["left"])
                asked = yield WorkflowStep("signoff.look", partial(self._look, key, request, asked["until"]))
            yield WorkflowEvent(WAITING + key, None)
        review = Review.of(asked["review"])
        if review.status == "waiting":
            review = Review.of((yield WorkflowStep("signoff.withdraw", lambda: self._withdraw(request))))
            if review.status == "cancelled":
                raise CollaborationError("expired", request_id=request)
        return concluded(review, arguments)

    def _ask(
        self, action: str | None, arguments: dict[str, Any], seconds: float | None, more: Mapping[str, Any]
    ) -> dict[str, Any]:
        key = request_name(str(DBOS.workflow_id), int(DBOS.step_id or 0))
        told = {"session": session_named(DBOS.workflow_id), **more}
        asked = self._client.submit(action, arguments, key=key, patience=PATIENCE, **told)
        if isinstance(asked, Approval):
            return {"key": key, "review": None}
        if asked.status == "waiting":
            say_waiting([asked])
        return _seen(key, asked, None if seconds is None else time.time() + seconds)

    def _look(self, key: str, request: str, until: float | None) -> dict[str, Any]:
        return _seen(key, self._client.get(request, patience=PATIENCE), until)

    def _withdraw(self, request: str) -> Mapping[str, Any]:
        try:
            return self._client.withdraw(request, patience=PATIENCE).raw
        except Conflict:  # somebody decided just now
            return self._client.get(request, patience=PATIENCE).raw

    def _performing(
        self,
        decision: Approval,
        function: Callable[..., R],
        idempotent: bool,
        lease: Duration | None,
        facts: FactsOrFunction,
    ) -> Wait[R]:
        check_read(function, {} if decision.edited or decision.action == "external" else decision.arguments)

        def perform() -> R | _AskedAgain:
            if decision.status == "not_required":
                if not idempotent:
                    _begin_once(decision.request_id)
                return function(**decision.arguments)
            attempt = request_name(str(DBOS.workflow_id), int(DBOS.step_id or 0)) if idempotent else None
            try:
                claimed = self._client.claim(
                    decision,
                    lease=lease,
                    attempt=attempt,
                    patience=PATIENCE,
                    facts=facts,
                    timeout=None,
                )
            except ApiError as error:
                if error.kind != "facts-changed" or DBOS.workflow_id is None:
                    raise
                return _AskedAgain(str(error.problem["id"]))
            return self._reported(claimed, function)

        while True:
            came = yield WorkflowStep(f"signoff.perform {decision.action}", perform, may_repeat=False)
            if not isinstance(came, _AskedAgain):
                result: R = came
                return result
            look = partial(self._look, decision.request_id, came.request, None)
            asked = yield WorkflowStep("signoff.look", look)
            decision = yield from self._approved(asked, decision.arguments)

    def _reported(self, claimed: ClaimedAction, function: Callable[..., R]) -> R:
        began = time.monotonic()
        arguments = {} if claimed.action == "external" else claimed.arguments
        try:
            check_read(function, arguments)
            result = function(**arguments)
        except Exception as error:
            self._report(claimed, error=error, seconds=time.monotonic() - began)
            raise
        self._report(claimed, result=result, seconds=time.monotonic() - began)
        return result

    def _report(self, claimed: ClaimedAction, **how: Any) -> None:
        """A failed report must not hide the function's outcome: people are asked then."""
        try:
            self._client.report(claimed, **how)
        except SignoffError as failed:
            log.error("could not report the outcome: %s (request %s)", failed, claimed.id)  # noqa: TRY400

    def _sweep(self) -> int:
        self._close_unperformed()
        waited = {
            name.removeprefix(WAITING): str(request)
            for workflow in DBOS.list_workflows(status="PENDING", load_input=False, load_output=False)
            for name, request in DBOS.get_all_events(workflow.workflow_id).items()
            if name.startswith(WAITING) and request is not None
        }
        if not waited:
            return 0
        still = {review.id for review in self._client.pending(limit=100_000)}
        ended = {key: request for key, request in waited.items() if request not in still}
        return sum(
            self._client.get(request).status != "waiting" and _wake(key, request)
            for key, request in ended.items()
        )

    def _close_unperformed(self) -> None:
        """A finished workflow performs nothing any more, so its approvals must not lapse."""
        for review in self._client.pending(status="approved"):
            workflow = workflow_of(review.request_id) if review.raw["lapse_at"] else None
            ended = DBOS.get_workflow_status(workflow) if workflow else None
            if ended is None or ended.status not in ("SUCCESS", "ERROR"):
                continue
            try:
                claimed = self._client.claim(review, timeout=None)
            except ApiError as refused:
                log.info("not closed: %s (request %s)", refused, review.id)
                continue
            words = f"handed over to the workflow {workflow}, which has ended with {ended.status}"
            self._report(claimed, **{"result" if ended.status == "SUCCESS" else "error": words})


def _seen(key: str, review: Review, until: float | None) -> dict[str, Any]:
    open_for = max(5.0, review.expires_at.timestamp() - time.time() + 1.0)
    own = open_for if until is None else max(0.0, until - time.time())
    left = min(open_for, own) if review.status == "waiting" else 0.0
    return {"key": key, "review": dict(review.raw), "until": until, "left": left}


def _begin_once(request_id: str) -> None:
    """Record that the step begins. Raises AlreadyClaimed if it began in an earlier process."""
    workflow, step = DBOS.workflow_id, DBOS.step_id
    if workflow is None or step is None:  # nothing is recovered
        return
    # Not a step of its own: DBOS could not recover workflows that an earlier version recorded without it.
    event = f"{BEGUN}{step}:{request_id}"
    if DBOS.get_event(workflow, event, timeout_seconds=0) is not None:
        words = "an earlier process has begun this action, and its outcome is unknown"
        raise AlreadyClaimed(409, "claimed", words)
    DBOS.set_event(event, True)


def _wake(key: str, request: str) -> bool:
    """Idempotent."""
    workflow = workflow_of(key)
    if workflow is None:
        return False
    try:
        DBOS.send(workflow, request, topic=key, idempotency_key=request)
    except dbos_error.DBOSNonExistentWorkflowError:
        return False  # belongs to another application
    return True


PREFIX = "dbos:"

LONGEST = 112
"""Characters of a workflow id; a request name has at most 128."""

_FREE = re.compile(r"[A-Za-z0-9_.@-]")


def request_name(workflow: str, step: int) -> str:
    """Characters that names cannot have become `~` and hex. Raises ValueError for a too long id."""
    quoted = "".join(
        each if _FREE.match(each) else "".join(f"~{byte:02x}" for byte in each.encode()) for each in workflow
    )
    if len(quoted) > LONGEST:
        raise ValueError(
            f"the workflow id {workflow!r} is too long: {LONGEST} letters, digits and _ . - @ have room"
        )
    return f"{PREFIX}{quoted}:{step}"


def workflow_of(key: str) -> str | None:
    """None for names of other programs."""
    found = re.fullmatch(r"dbos:((?:[A-Za-z0-9_.@-]|~[0-9a-f]{2})+):\d+", key)
    if found is None:
        return None
    quoted = re.sub(r"~([0-9a-f]{2})", lambda byte: f"%{byte[1]}", found[1])
    return unquote(quoted)
