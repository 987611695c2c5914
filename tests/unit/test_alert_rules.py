"""The alert rules of `deploy/monitoring`, evaluated by Prometheus' own `promtool` where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.alert_cases import CASES, HEALTHY, LEFT, STEP, Case

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "monitoring" / "alerts.yaml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
}
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed; Debian's package `prometheus` has it"
)
TELLS = re.compile(
    r"(?:^|[.;,] |, then |, and |, or )(check|look|mend|press|raise|read|restart|run|see|start|settle)\b",
    re.IGNORECASE,
)


def test_every_rule_has_a_case_of_its_own() -> None:
    """A rule that no case makes fire might never fire."""
    assert {name for name, _ in CASES} == set(RULES)


def test_every_rule_tells_what_to_do() -> None:
    """Its description has an instruction, and what it calls a part of the runbook is there."""
    operations = "".join(
        (ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("commands.md", "troubleshooting.md")
    )
    for name, rule in RULES.items():
        description = rule["annotations"]["description"]
        assert TELLS.search(description), name
        for row in re.findall(r'"([^"]+)"', description):
            assert f"\n| {row} |" in operations, (name, row)
        for command in re.findall(r"`(signoff \w+)", description):
            assert f"`{command}" in operations, (name, command)


def test_what_people_have_to_settle_is_no_counter() -> None:
    """A counter ends with its process, and its increase with time: these alerts ask the database instead."""
    for name, metric in LEFT.items():
        assert metric in RULES[name]["expr"]
        assert "increase(" not in RULES[name]["expr"]
        assert "offset" not in RULES[name]["expr"]


@needs_promtool
def test_promtool_takes_the_rules() -> None:
    """`promtool check rules` finds nothing to complain about."""
    assert promtool("check", "rules", str(ALERTS)) == ""


@needs_promtool
def test_a_healthy_service_fires_no_alert(tmp_path: Path) -> None:
    """From the first sample on, for an hour."""
    run(tmp_path, [unit({}, {at: {} for at in (0, 1, 20, 240)})])


@needs_promtool
@pytest.mark.parametrize(("name", "case"), CASES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(CASES)])
def test_each_alert_fires_when_it_must_and_alone(name: str, case: Case, tmp_path: Path) -> None:
    """After its `for` and not before, with its words, beside no other; it stays while its cause does."""
    loud = {at: {name: case} for at in case.fires}
    run(tmp_path, [unit(case.series, {**loud, **{at: {} for at in case.quiet}})])


def unit(series: Any, times: dict[int, dict[str, Case]]) -> dict[str, Any]:
    """A test group in promtool's format: at each time exactly these alerts fire."""
    given = {name: values for name, values in {**HEALTHY, **series}.items() if values}
    return {
        "interval": f"{STEP}s",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "alert_rule_test": [
            {
                "eval_time": f"{at * STEP}s",
                "alertname": name,
                "exp_alerts": [expected(name, firing[name])] if name in firing else [],
            }
            for at, firing in times.items()
            for name in RULES
        ],
    }


def expected(name: str, case: Case) -> dict[str, Any]:
    rule = RULES[name]

    def filled(words: str) -> str:
        words = words.replace("{{ $value }}", case.value)
        return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: case.labels[found[1]], words)

    return {
        "exp_labels": {**rule["labels"], **case.labels},
        "exp_annotations": {key: filled(words) for key, words in rule["annotations"].items()},
    }


def run(folder: Path, tests: list[dict[str, Any]]) -> None:
    cases = folder / "cases.yaml"
    whole = {"rule_files": [str(ALERTS)], "evaluation_interval": f"{STEP}s", "tests": tests}
    cases.write_text(yaml.safe_dump(whole, allow_unicode=True), encoding="utf-8")
    assert promtool("test", "rules", str(cases)) == ""


def promtool(*arguments: str) -> str:
    """What it complains about."""
    assert PROMTOOL
    ended = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr
