"""Failures on demand: rate limits, errors, slowness and lost responses."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum


class FaultKind(Enum):
    """A kind of failure that the sandbox can produce on demand, in the Web API or in Socket Mode."""

    RATELIMITED = "ratelimited"
    HTTP_500 = "http_500"
    HANG = "hang"
    SLOW = "slow"
    RESET_BEFORE_ACCEPT = "reset_before_accept"
    RESET_AFTER_ACCEPT = "reset_after_accept"
    ERROR = "error"
    REFUSE_TICKET = "refuse_ticket"
    TOO_MANY_WEBSOCKETS = "too_many_websockets"
    CUT_AFTER_HELLO = "cut_after_hello"
    ASK_TO_LEAVE = "ask_to_leave"
    DROP_ACK = "drop_ack"
    DUPLICATE_DELIVERY = "duplicate_delivery"


@dataclass
class ApiFault:
    """`times` counts down; None never ends."""

    kind: FaultKind
    method: str
    times: int | None
    probability: float
    random_numbers: random.Random
    seconds: float = 0.0
    code: str = ""
    hits: int = 0


@dataclass
class Faults:
    """Every method takes a Web API method name, or "*" for all. `times` is how often the fault strikes (None: until
    cleared), `probability` its chance per call, from a generator seeded with `seed`. Each returns the ApiFault, whose
    `hits` counts.
    """

    active: list[ApiFault] = field(default_factory=list)

    def ratelimited(
        self,
        method: str,
        retry_after: int = 1,
        times: int | None = 1,
        probability: float = 1.0,
        seed: int = 0,
    ) -> ApiFault:
        """HTTP 429 with `Retry-After` in seconds."""
        return self._add(FaultKind.RATELIMITED, method, times, probability, seed, seconds=retry_after)

    def http_500(
        self, method: str, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        """No JSON body; the call has no effect."""
        return self._add(FaultKind.HTTP_500, method, times, probability, seed)

    def hang(
        self, method: str, seconds: float, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        """No response for `seconds`, then the connection is cut; the call has no effect."""
        return self._add(FaultKind.HANG, method, times, probability, seed, seconds=seconds)

    def slow(
        self, method: str, seconds: float, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        """The call takes effect; its response is delayed by `seconds`."""
        return self._add(FaultKind.SLOW, method, times, probability, seed, seconds=seconds)

    def reset_before_accept(
        self, method: str, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        return self._add(FaultKind.RESET_BEFORE_ACCEPT, method, times, probability, seed)

    def reset_after_accept(
        self, method: str, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        """The call takes effect, then the connection is cut instead of a response."""
        return self._add(FaultKind.RESET_AFTER_ACCEPT, method, times, probability, seed)

    def error(
        self, method: str, code: str, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        return self._add(FaultKind.ERROR, method, times, probability, seed, code=code)

    def refuse_tickets(self, times: int | None = 1) -> ApiFault:
        """Socket Mode URLs are issued, but connecting is refused."""
        return self._add(FaultKind.REFUSE_TICKET, "socket", times)

    def too_many_websockets(self, times: int | None = 1) -> ApiFault:
        """Connections open and are closed at once, as if ten others existed."""
        return self._add(FaultKind.TOO_MANY_WEBSOCKETS, "socket", times)

    def cut_after_hello(self, times: int | None = 1) -> ApiFault:
        """Connections are cut after `hello`, without notice."""
        return self._add(FaultKind.CUT_AFTER_HELLO, "socket", times)

    def ask_to_leave(self, reason: str, times: int | None = 1) -> ApiFault:
        """After `hello`, `disconnect` with this reason follows, twice; the app closes the connection."""
        return self._add(FaultKind.ASK_TO_LEAVE, "socket", times, code=reason)

    def drop_acks(self, times: int | None = 1, probability: float = 1.0, seed: int = 0) -> ApiFault:
        """The app's acknowledgement over a socket is lost."""
        return self._add(FaultKind.DROP_ACK, "socket", times, probability, seed)

    def duplicate_deliveries(
        self, times: int | None = 1, probability: float = 1.0, seed: int = 0
    ) -> ApiFault:
        return self._add(FaultKind.DUPLICATE_DELIVERY, "socket", times, probability, seed)

    def clear(self) -> None:
        self.active.clear()

    def take_fault(self, method: str, *kinds: FaultKind) -> ApiFault | None:
        """Without `kinds`: any fault except those of sockets."""
        for fault in list(self.active):
            fitting = fault.kind in kinds if kinds else fault.method != "socket"
            if not fitting or fault.method not in (method, "*", "socket"):
                continue
            if fault.random_numbers.random() >= fault.probability:
                continue
            fault.hits += 1
            if fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self.active.remove(fault)
            return fault
        return None

    def _add(
        self,
        kind: FaultKind,
        method: str,
        times: int | None,
        *random_numbers: float,
        seconds: float = 0.0,
        code: str = "",
    ) -> ApiFault:
        probability, seed = random_numbers or (1.0, 0)
        # Seeded, because test failures must be reproducible.
        fault = ApiFault(kind, method, times, probability, random.Random(seed), seconds, code)  # noqa: S311
        self.active.append(fault)
        return fault
