"""Less than an hour for all promises at their full size, on two cores."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

SIZE = float(os.environ.get("SIZE", "1"))
"""`make stress SIZE=0.1` plays a tenth of the rounds."""

SECONDS = {
    "test_a_claim_and_the_end_of_its_run_at_once": 10,
    "test_a_click_and_a_withdrawal_at_once_have_one_outcome": 10,
    "test_a_click_at_the_deadline_decides_or_is_late_and_never_both": 35,
    "test_a_death_at_each_step": 25,
    "test_a_death_at_every_point": 680,
    "test_a_death_under_a_grant": 80,
    "test_a_death_while_a_form_decides": 900,
    "test_a_death_while_people_answer": 400,
    "test_a_death_while_a_program_executes": 200,
    "test_a_death_within_a_limit": 135,
    "test_a_flood_of_a_thousand_with_groups": 120,
    "test_a_hundred_thousand_judgements_are_made_again_within_a_minute": 10,
    "test_a_revived_worker_writes_nothing": 150,
    "test_a_rolling_restart_resumes_each_run_once": 75,
    "test_200_cards_through_an_outage": 20,
    "test_an_answer_and_a_withdrawal_at_once": 20,
    "test_an_older_worker_beside_this_one": 10,
    "test_every_surface_is_true_after_a_sender_was_killed": 120,
    "test_every_surface_is_true_after_a_storm": 215,
    "test_every_spelling_stays_inert_everywhere": 10,
    "test_everything_at_once_neither_deadlocks_nor_breaks_a_rule": 75,
    "test_memory_tasks_and_connections_do_not_grow_with_what_waits": 55,
    "test_no_mutated_request_gets_through": 10,
    "test_no_race_overdraws_a_grant": 65,
    "test_refusals_at_random_under_load": 90,
    "test_seven_surfaces_agree_within_a_second": 90,
    "test_seven_surfaces_agree_within_ten_seconds_in_a_busy_channel": 225,
    "test_of_ten_answers_one_counts": 40,
    "test_one_key_cannot_use_up_the_open_files": 60,
    "test_sweeps_that_fail_beside_each_other_are_told_once": 40,
    "test_ten_people_on_two_processes_make_one_decision": 30,
    "test_ten_thousand_actions_through_every_builder": 45,
    "test_ten_workers_claim_a_call_once": 10,
    "test_ten_workers_lease_a_run_once": 10,
    "test_the_api_does_what_it_says_at_length": 170,
    "test_the_use_cases_do_what_the_reference_says": 680,
    "test_this_worker_beside_a_newer_one": 10,
    "test_three_schedulers_expire_each_request_once": 65,
    "test_three_schedulers_expire_ten_thousand_within_a_minute": 50,
    "test_twenty_at_once_take_the_last_unit_once": 30,
    "test_two_equal_answers_are_of_two_people": 40,
}
"""Seconds for one case of each test; a test that takes far longer fails."""


def check_budgets(names: Iterable[str]) -> None:
    """Raise UsageError if a test has no time above."""
    if unknown := sorted(set(names) - set(SECONDS)):
        raise pytest.UsageError(f"tests/stress/budget.py does not say how long these take: {unknown}")


def full(rounds: int) -> int:
    return max(1, round(rounds * SIZE))


SPARE = 60.0
"""Seconds."""


def limit(test: str) -> float:
    """Seconds after which a case hangs; a busy machine may take three times as long."""
    return SPARE + 3 * SECONDS[test]
