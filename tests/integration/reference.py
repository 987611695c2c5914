"""The rules of runs, calls, requests and attempts, written again without a database, to compare with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal

OVER = ("denied", "failed", "cancelled")
DECIDES = {"approve": "approved", "reject": "rejected"}
MAX_ATTEMPTS = 3  # lost attempts after which a call is in doubt, even if it may be repeated
NOTHING = Decimal(0)
ANSWERS = {"rejected": "rejected", "expired": "expired", "cancelled": "withdrawn"}


@dataclass(eq=False)
class Run:
    parent: Run | None = None
    status: str = "working"
    awaiting: int = 0
    inputs: int = 1
    heard: int = 0
    epoch: int = 0
    held: bool = False  # a turn is in progress
    alive: bool = False  # and its lease has not expired
    calls: list[Call] = field(default_factory=list)
    children: list[Run] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.parent:
            self.parent.children.append(self)

    @property
    def over(self) -> bool:
        return self.status in OVER

    def hear(self) -> None:
        if self.over:
            self.status = "working"
        self.wake()

    def wake(self) -> None:
        self.inputs += 1
        if self.status == "completed":
            self.status = "working"

    def lease(self) -> int | None:
        """The epoch of the new lease; None if there is no new input or the lease is held."""
        if self.inputs <= self.heard or self.status not in ("working", "pending_approval") or self.alive:
            return None
        self.epoch += 1
        self.held = self.alive = True
        return self.epoch

    def turn(self, epoch: int, heard: int, proposed: int) -> bool:
        if not self.held or epoch != self.epoch:
            return False
        self.held = self.alive = False
        side = self.awaiting > 0
        new = 0 if side else proposed
        self.calls += [Call(self) for _ in range(new)]
        if not new and not side and self.inputs == heard:
            self.status = "completed"
        self.heard, self.awaiting = heard, self.awaiting + new
        return True

    def fail(self, epoch: int, *, for_good: bool) -> bool:
        if not self.held or epoch != self.epoch:
            return False
        self.held = self.alive = False
        if for_good:
            self.end("failed")
        return True

    def end(self, status: str) -> None:
        self.status, self.heard, self.held, self.alive = status, self.inputs, False, False
        self.epoch += 1
        for call in self.calls:
            if call.state == "asked":
                call.request.end("cancelled")
            elif call.state in ("new", "ready"):
                call.state, call.kind = "refused", "withdrawn"
        if status == "denied" and self.parent and not self.parent.over:
            self.parent.end("denied")

    def unpark(self) -> None:
        if self.status == "pending_approval" and not any(
            c.state == "asked" and c.blocking for c in self.calls
        ):
            self.status = "working"


@dataclass(eq=False)
class Program(Run):
    """Proposes calls, too; nothing wakes it."""

    def wake(self) -> None:
        pass

    def unpark(self) -> None:
        pass


@dataclass(eq=False)
class Call:
    run: Run
    state: str = "new"
    blocking: bool = True
    repeats: Call | None = None
    kind: str | None = None
    requests: list[Request] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    grant: Grant | None = None

    @property
    def request(self) -> Request:
        return self.requests[-1]

    amount: Decimal | None = None
    """Amount of the limit, since the call was first asked about or claimed."""

    @property
    def takes(self) -> tuple[Decimal, Decimal]:
        """Amounts that count as used, and as waiting."""
        if self.amount is None:
            return NOTHING, NOTHING
        over = self.state in ("refused", "answered")
        if not self.attempts:
            return NOTHING, NOTHING if over else self.amount
        failed = len(self.attempts) == 1 and self.attempts[0].status == "failed" and self.kind == "error"
        return (NOTHING if over and failed else self.amount), NOTHING

    @property
    def of_program(self) -> bool:
        return isinstance(self.run, Program)

    @property
    def unneeded(self) -> bool:
        return self.run.over and self.repeats is None

    def may_begin_under(self, grant: Grant) -> bool:
        """True for a call that nobody was asked about: its first attempt, or a retry that nobody requested."""
        if self.requests or self.repeats or self.unneeded:
            return False
        if self.state == "new":
            return self.grant is None
        again = self.state == "ready" and bool(self.attempts) and not self.attempts[-1].retried
        return again and self.grant is grant

    def ask(self, *, needed: int, stop: bool, background: bool) -> None:
        self.requests.append(Request(self, needed, stop))
        self.state = "asked"
        if self.blocking and background:
            self.blocking = False
            self.run.awaiting -= 1
            if self.run.awaiting == 0:
                self.run.wake()
        elif self.blocking and self.run.status == "working":
            self.run.status = "pending_approval"

    def answer(self, kind: str) -> None:
        stops = bool(self.requests) and self.request.stop and kind in ("rejected", "expired")
        run, self.state, self.kind = self.run, "answered", kind
        if self.blocking:
            run.awaiting -= 1
            run.unpark()
        if stops and not run.over:
            run.end("denied")
        elif self.blocking:
            if run.awaiting == 0 and not run.over:
                run.wake()
        elif not run.over:
            run.wake()
        elif not stops and kind != "withdrawn" and (run.status == "failed" or self.repeats):
            run.hear()


@dataclass(eq=False)
class Request:
    call: Call
    needed: int
    stop: bool
    status: str = "waiting"
    overdue: bool = False
    voided: bool = False
    votes: dict[str, str] = field(default_factory=dict)
    granted: dict[str, Grant] = field(default_factory=dict)
    """By proposer."""

    @property
    def is_over(self) -> bool:
        return self.voided or self.status not in ("waiting", "approved")

    def may_grant(self, who: str) -> bool:
        return self.votes.get(who) == "approve" and not self.is_over

    def end(self, status: str) -> None:
        self.status = status
        ended = "answered" if self.call.of_program else "refused"
        self.call.state = "ready" if status == "approved" else ended
        self.call.kind = ANSWERS.get(status)

    def vote(self, who: str, verdict: str, requester: str, lost: Collection[str]) -> str:
        same = self.votes.get(who) == verdict
        if same and self.status == DECIDES[verdict]:
            return self.status
        if who in lost:
            return "not_a_reviewer"
        if who == requester:
            return "self_review"
        if self.status == "cancelled":
            return "withdrawn"
        if self.status == "expired" or (self.status == "waiting" and self.overdue):
            return "expired"
        if self.status != "waiting":
            return "already_decided"
        self.votes[who] = verdict
        approvals = [p for p, v in self.votes.items() if v == "approve" and p not in lost]
        if verdict == "reject":
            self.end("rejected")
        elif len(approvals) >= self.needed:
            self.end("approved")
        return self.status


@dataclass(eq=False)
class Attempt:
    call: Call
    idempotent: bool
    status: str = "claimed"
    lost: bool = False
    settled: bool = False
    retried: bool = False
    wanted: set[str] = field(default_factory=set)
    """People who asked for Retry."""
    text: str | None = None

    def report(self, status: str, text: str | None) -> bool:
        """True for the first report, the same one again, and a success that ends an unsettled doubt."""
        if self.status != "claimed":
            if self.status == "in_doubt" and not self.settled and status == "succeeded":
                self.status, self.text = status, text
                self.call.answer("result")
                return True
            return (self.status, self.text) == (status, text)
        self.status, self.text = status, text
        if status == "in_doubt":
            self.call.state = "in_doubt"
        else:
            self.call.answer("result" if status == "succeeded" else "error")
        return True

    def missing(self, who: str, lost: set[str]) -> int:
        """How many people are missing for Retry if `who` asks for it and the `lost` ones are no reviewers any more."""
        needed = self.call.request.needed if self.call.requests else 1
        return max(0, needed - len(self.wanted - lost | {who}))

    def rescue(self) -> None:
        if self.idempotent and not self.call.unneeded and len(self.call.attempts) < MAX_ATTEMPTS:
            self.status, self.call.state = "failed", "ready"
        else:
            self.report("in_doubt", None)


@dataclass(eq=False)
class Grant:
    request: Request
    max_uses: int
    over: bool
    wish: tuple[object, ...]
    granters: set[str] = field(default_factory=set)
    uses: int = 0
    ended: bool = False

    @property
    def holds(self) -> bool:
        return len(self.granters) >= self.request.needed

    def covers(self, call: Call) -> bool:
        """Whether the grant covers a refund of this run, or another attempt at one."""
        top = call.run.parent or call.run
        family = [each for run in (top, *top.children) for each in run.calls]
        contradicted = any(r.status == "rejected" for each in family for r in each.requests)
        room = call.grant is self or self.uses < self.max_uses
        return self.holds and not self.ended and not self.over and room and not contradicted

    def use(self, call: Call) -> None:
        self.uses += call.grant is None
        call.grant = self
