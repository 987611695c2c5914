"""What the benchmarks say of their samples."""

from __future__ import annotations

from benchmarks.scale_model import needs
from benchmarks.stats import Ratio, median, p99, quantile, ratio


def test_quantiles_are_samples() -> None:
    """A quantile is one of the samples, never a mean of two."""
    samples = [float(n) for n in range(100, 0, -1)]
    assert (median(samples), p99(samples), quantile(samples, 1.0)) == (51.0, 100.0, 100.0)


def test_the_interval_is_about_rounds() -> None:
    """Rounds that agree have a narrow interval, rounds that differ a wide one, however many samples are in each."""
    peer = [[10.0] * 50 for _ in range(10)]
    steady = ratio([[5.0] * 50 for _ in range(10)], peer, median)
    assert steady == Ratio(0.5, 0.5, 0.5)
    differing = ratio([[5.0 if n % 2 else 20.0] * 50 for n in range(10)], peer, median)
    assert differing.low == 0.5
    assert differing.high == 2.0
    assert ratio([[5.0, 6.0]], [[10.0, 9.0]], median).low == ratio([[5.0, 6.0]], [[10.0, 9.0]], median).high


def test_a_ratio_is_the_same_for_the_same_samples() -> None:
    """The draws of the bootstrap are fixed, so a result can be published twice."""
    ours, peer = [[float(n), n + 3.0] for n in range(1, 9)], [[float(n)] for n in range(2, 10)]
    assert ratio(ours, peer, median) == ratio(ours, peer, median)


def test_the_model_multiplies_what_one_decision_costs() -> None:
    """60 KB of tables and 60 ms of PostgreSQL for each decision are 0.9 GB a day and 0.017 cores at ten a minute."""
    each = {"commits": 3.0, "wal": 30_000.0, "server_ms": 30.0, "flushes": 1.0}
    found = {
        "opening": each,
        "deciding": each | {"python_ms": 60.0},
        "bytes": {"a": {"heap": 40_000.0, "indexes": 20_000.0}},
    }
    table = {line[0]: line[1:] for line in needs(found)}
    assert table["growth of the tables, GB a day"] == ["0.864", "86.4", "8,640"]
    assert table["PostgreSQL, cores at 60 %"][0] == "0.017"
