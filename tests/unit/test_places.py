"""How the connections that may wait are shared among keys, and what a limit of open files allows."""

from __future__ import annotations

import resource
import time

import pytest
from fastapi import Request

from slackbot import settings
from slackbot.service import open_files
from slackbot.web.http.places import HeldPlace, Places
from slackbot.web.http.shares import share_of

SETTINGS = {"SIGNOFF_CONCURRENCY": "20"}


def new_request() -> Request:
    return Request({"type": "http", "state": {}})


def fill(shared: Places, *names: str) -> dict[str, list[HeldPlace]]:
    """Every key takes all that it gets, in turn."""
    taken: dict[str, list[HeldPlace]] = {name: [] for name in names}
    hungry = list(names)
    while hungry:
        for name in list(hungry):
            place = shared.place(new_request(), name).take()
            if place.granted:
                taken[name].append(place)
            else:
                hungry.remove(name)
    return taken


@pytest.mark.parametrize("keys", [1, 2, 3, 10, 50])
def test_some_places_stay_free_however_many_keys_wait(keys: int) -> None:
    """Each gets as much as any other, about two parts of 2 n + 1, and one part stays free."""
    shared = Places(728)
    taken = fill(shared, *(f"key:{number}" for number in range(keys)))
    part = 728 / (2 * keys + 1)
    assert all(abs(len(each) - 2 * part) <= 2 for each in taken.values())
    assert shared.most - shared.held >= part - 1


def test_a_place_that_is_given_back_is_free_once() -> None:
    """By the call's end and by the connection's, whichever comes first, and not twice."""
    shared = Places(3)
    with shared.place(new_request(), "key:a") as place:
        assert place.granted
        assert shared.held == 1
        place.give_back()
        place.give_back()
        assert shared.held == 0
    assert shared.held == 0
    refused = Places(0).place(new_request(), "key:a").take()
    refused.give_back()
    assert not refused.granted


def test_those_who_come_again_do_not_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second apart, after 5 s at the earliest and a minute at the latest; each key by itself."""
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    shared = Places(0)
    turns = [shared.seconds_until_turn("key:a") for _ in range(1_000)]
    assert turns[0] == 5
    assert turns[100] in (15, 16)
    assert turns[-1] == 60
    assert shared.seconds_until_turn("key:b") == 5


def test_the_documented_limit_lets_5000_callers_wait() -> None:
    """8,192 open files are enough for a process with all roles, and one step below is said to be too few."""
    configured = settings.read(SETTINGS)
    assert open_files.shortage(configured, open_files.ENOUGH) is None
    assert share_of(open_files.connections_within(open_files.ENOUGH, configured)) >= 5_000
    assert "1,024 open files let 498 callers of one key wait" in str(open_files.shortage(configured, 1_024))
    assert open_files.shortage(settings.read({"SIGNOFF_ROLES": "worker"}), 1_024) is None


@pytest.mark.parametrize("limit", [64, 256, 1_024, 8_192, 1_048_576])
def test_a_reserve_is_left(limit: int) -> None:
    """For Slack, the database and running tools: 256 and one each, or half of what there is."""
    configured = settings.read(SETTINGS)
    most = open_files.connections_within(limit, configured)
    assert limit - most >= min(256 + 20, limit // 2)
    assert 0 < most <= 10_000


@pytest.mark.parametrize(
    ("soft", "hard", "allowed", "becomes"),
    [
        (256, 1_024, 1_024, 1_024),
        (1_024, 1_024, 1_024, 1_024),
        (256, resource.RLIM_INFINITY, 1_048_576, 1_048_576),
        (256, resource.RLIM_INFINITY, 20_000, 10_240),
        (20_000, resource.RLIM_INFINITY, 10_240, 20_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 0, 1_048_576),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_the_system_allows(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, allowed: int, becomes: int
) -> None:
    """To the hard limit, or, where that is none, to what the system takes; never below what it was."""
    now = [soft, hard]

    def change(_: int, wanted: tuple[int, int]) -> None:
        if wanted[0] == resource.RLIM_INFINITY or wanted[0] > allowed:
            raise ValueError("not allowed to raise maximum limit")
        now[:] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(now))
    monkeypatch.setattr(resource, "setrlimit", change)
    assert open_files.raise_limit() == becomes
