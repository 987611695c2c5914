"""When each rule of `deploy/monitoring/alerts.yaml` fires, in the notation of `promtool test rules`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

STEP = 15
"""Seconds between two samples."""

HEALTHY = {
    'signoff_database_up{instance="web"}': "1x250",
    'signoff_database_up{instance="worker"}': "1x250",
    'signoff_database_writable{instance="web"}': "1x250",
    'signoff_slack_connected{instance="web"}': "1x250",
    'signoff_slack_connected{instance="worker"}': "1x250",
    'signoff_draining{instance="web"}': "0x250",
    'signoff_web_alive{instance="web"}': "1x250",
    'signoff_worker_alive{instance="worker"}': "1x250",
    'signoff_scheduler_age_seconds{instance="scheduler"}': "1x250",
    'signoff_sweeps_failing{instance="web"}': "0x250",
    'signoff_queue_depth{instance="web",queue="calls"}': "1000x250",
    'signoff_requests_overdue{instance="web"}': "0x250",
    'signoff_oldest_undelivered_seconds{instance="web"}': "2x250",
    'signoff_channels_in_trouble{instance="web"}': "0x250",
    'signoff_messages_dead{instance="web"}': "0x250",
    'signoff_slack_events_withheld_total{instance="web"}': "0x250",
    'signoff_slack_sockets_refused_total{instance="web",because="short"}': "0x250",
    'signoff_click_to_ack_seconds_bucket{instance="web",door="http",le="1.0"}': "0+10x250",
    'signoff_click_to_ack_seconds_bucket{instance="web",door="http",le="2.0"}': "0+10x250",
    'signoff_click_to_ack_seconds_bucket{instance="web",door="http",le="+Inf"}': "0+10x250",
    'signoff_calls_in_doubt{instance="web"}': "0x250",
    'signoff_executions_total{instance="worker",outcome="succeeded"}': "0+1x250",
    'signoff_executions_total{instance="worker",outcome="failed"}': "0x250",
    'signoff_oldest_notice_seconds{instance="web"}': "5x250",
    'signoff_notices_dead{instance="web"}': "0x250",
    'signoff_database_connections{instance="web",pool="read",state="in_use"}': "4x250",
    'signoff_database_connections{instance="web",pool="read",state="most"}': "5x250",
    'signoff_http_connections{instance="web",state="open"}': "50x250",
    'signoff_http_connections{instance="web",state="most"}': "100x250",
    'signoff_http_connections{instance="worker",state="open"}': "0x250",
    'signoff_http_connections{instance="worker",state="most"}': "0x250",
    'signoff_http_waits_cut_short_total{instance="web"}': "0x250",
    'signoff_http_accept_failures_total{instance="web"}': "0x250",
    'signoff_http_server_errors_total{instance="web"}': "0x250",
}


@dataclass(frozen=True, slots=True)
class Case:
    """``series`` replace those of the same name among the healthy ones; an empty value takes one away.

    The alert fires at each time of ``fires``, alone unless ``beside`` names others, and no alert fires at a time of
    ``quiet``. Times are samples.
    """

    series: Mapping[str, str]
    fires: tuple[int, ...]
    quiet: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    beside: tuple[str, ...] = ()


CASES: list[tuple[str, Case]] = [
    ("SignoffDatabaseAway", Case({'signoff_database_up{instance="web"}': "1x9 0x200"}, (14, 100), (9, 13))),
    (
        "SignoffDatabaseRefuses",
        Case({'signoff_database_writable{instance="web"}': "1x9 0x19 1x200"}, (11, 29), (10, 30)),
    ),
    ("SignoffSweepFails", Case({'signoff_sweeps_failing{instance="web"}': "0x9 1x200"}, (10, 100), (9,))),
    (
        "SignoffSlackAway",
        Case(
            {
                'signoff_slack_connected{instance="web"}': "1x9 0x200",
                'signoff_slack_connected{instance="worker"}': "1x19 0x200",
            },
            (40, 100),
            (39,),
        ),
    ),
    # The web processes are gone and the others live: their series end, or the last one is asked to stop and hangs.
    ("SignoffNoWeb", Case({'signoff_web_alive{instance="web"}': "1x9 stale"}, (14, 100), (9, 13))),
    ("SignoffNoWeb", Case({'signoff_web_alive{instance="web"}': "1x9 0x200"}, (14,), (13,))),
    ("SignoffNoWeb", Case({'signoff_web_alive{instance="web"}': ""}, (4, 100), (3,))),
    ("SignoffNoWorker", Case({'signoff_worker_alive{instance="worker"}': "1x9 stale"}, (14, 100), (13,))),
    ("SignoffNoWorker", Case({'signoff_worker_alive{instance="worker"}': "1x9 0x200"}, (14,), (13,))),
    (
        "SignoffNoScheduler",
        Case({'signoff_scheduler_age_seconds{instance="scheduler"}': "1x9 stale"}, (14, 100), (13,)),
    ),
    (
        "SignoffNoScheduler",
        Case({'signoff_scheduler_age_seconds{instance="scheduler"}': "1x9 61+15x200"}, (14,), (13,)),
    ),
    (
        "SignoffQueueGrows",
        Case(
            {'signoff_queue_depth{instance="web",queue="calls"}': "1000x9 1001x200"},
            (30, 100),
            (29,),
            {"queue": "calls"},
            "1001",
        ),
    ),
    (
        "SignoffRequestsOverdue",
        Case({'signoff_requests_overdue{instance="web"}': "0x9 3x200"}, (18, 100), (17,), value="3"),
    ),
    (
        "SignoffMessagesLate",
        Case({'signoff_oldest_undelivered_seconds{instance="web"}': "300x9 301x200"}, (14, 100), (13,)),
    ),
    (
        "SignoffChannelInTrouble",
        Case({'signoff_channels_in_trouble{instance="web"}': "0x9 2x200"}, (30, 100), (29,), value="2"),
    ),
    (
        "SignoffEventsWithheld",
        Case({'signoff_slack_events_withheld_total{instance="web"}': "0x9 1x200"}, (10, 69), (9, 80)),
    ),
    (
        "SignoffSocketRefused",
        Case(
            {'signoff_slack_sockets_refused_total{instance="web",because="short"}': "0x9 4x200"},
            (30,),
            (9, 80),
            {"because": "short"},
        ),
    ),
    (
        "SignoffAcknowledgesLate",
        Case(
            {'signoff_click_to_ack_seconds_bucket{instance="web",door="http",le="1.0"}': "0+9x250"},
            (30, 100),
            (15,),
        ),
    ),
    (
        "SignoffExecutionsFail",
        Case(
            {
                'signoff_executions_total{instance="worker",outcome="succeeded"}': "0x250",
                'signoff_executions_total{instance="worker",outcome="failed"}': "0x9 8x200",
            },
            (30,),
            (9, 140),
        ),
    ),
    (
        "SignoffNoticesLate",
        Case({'signoff_oldest_notice_seconds{instance="web"}': "900x9 901x200"}, (30, 100), (29,)),
    ),
    (
        "SignoffDatabaseConnectionsUsedUp",
        Case(
            {
                'signoff_database_connections{instance="web",pool="read",state="in_use"}': "4x9 5x200",
            },
            (14, 100),
            (13,),
            {"instance": "web", "pool": "read"},
        ),
    ),
    (
        "SignoffConnectionsUsedUp",
        Case(
            {'signoff_http_connections{instance="web",state="open"}': "90x9 91x200"},
            (30, 100),
            (29,),
            {"instance": "web"},
        ),
    ),
    (
        "SignoffWaitsCutShort",
        Case({'signoff_http_waits_cut_short_total{instance="web"}': "0x9 120x200"}, (30,), (9, 80)),
    ),
    (
        "SignoffNoOpenFiles",
        Case({'signoff_http_accept_failures_total{instance="web"}': "0x9 1x200"}, (12,), (9, 40)),
    ),
    # Twelve at once, and none before: a counter without labels was there with 0.
    (
        "SignoffServerErrors",
        Case({'signoff_http_server_errors_total{instance="web"}': "0x9 12x200"}, (20,), (9, 60)),
    ),
    (
        "SignoffDrainsForLong",
        Case({'signoff_draining{instance="web"}': "0x9 1x200"}, (30, 100), (29,), {"instance": "web"}, "1"),
    ),
]

LEFT = {
    "SignoffMessagesGivenUp": "signoff_messages_dead",
    "SignoffInDoubt": "signoff_calls_in_doubt",
    "SignoffNoticesGivenUp": "signoff_notices_dead",
}
"""What stays until people have settled it: each alert, and its metric."""

for _alert, _metric in LEFT.items():
    _web = f'{_metric}{{instance="web"}}'
    CASES += [
        # It fires at once, is still there after an hour, and ends with what it is about.
        (_alert, Case({_web: "0x9 2x229 0x100"}, (10, 239), (9, 240), value="2")),
        # It was left by a process that is no more: the first sample of another one is enough.
        (_alert, Case({_web: "", f'{_metric}{{instance="other"}}': "_x9 2x200"}, (9, 100), (8,), value="2")),
        # The only process restarts, which takes two minutes: one alert, not two.
        (_alert, Case({_web: "2x9 stale _x6 2x200"}, (1, 12, 15, 20, 100), value="2")),
        # It was settled while the process was away.
        (_alert, Case({_web: "2x9 stale _x6 0x200"}, (12,), (18, 100), value="2")),
    ]
