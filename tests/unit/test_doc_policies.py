"""Every policy that the documentation shows asks people about what it is there for, whatever is tried against it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from agent.domain import checkpoints
from agent.domain.judgement import ToolTraits
from agent.domain.limits import Caller, LimitState
from agent.domain.policy import Policy
from agent.runtime.agents import Registry
from agent.runtime.checks.policy_lint import lint_policy
from signoff.values import Action
from tests.doc_blocks import ROOT, Block, blocks


@dataclass(frozen=True)
class Call:
    """`facts`: `None` if nothing is known."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] | None = None


def commands(*texts: Any, tool: str = "Bash") -> list[Call]:
    folder = {"signoff_folder": "/srv/ada/shop"}
    return [Call(tool, folder | {"command": each}) for each in texts]


def words(*lists: Any) -> list[Call]:
    return [Call("kubectl", {"signoff_command": each}) for each in lists]


def refunds(*prices: Any, **facts: Any) -> list[Call]:
    return [Call("process_refund", {"order_id": "7"}, {"price": each, **facts}) for each in prices]


DELETIONS = [
    Call("delete_records", {"table_name": "customers", "count": 1}),
    Call("delete_user"),
    Call("delete"),
]
UNKNOWN = [
    Call("process_refund", {"order_id": "7", "price": 1}),
    Call("process_refund", {}, {}),
    *refunds("5", None),
]
LARGE = [*refunds(1000.01, 5000, 1e300), *UNKNOWN]

MUST_BE_ASKED: dict[tuple[str, str], list[Call]] = {
    ("README.md", "deletions"): DELETIONS,
    ("docs/quickstart.md", "deletions"): DELETIONS,
    ("docs/quickstart.md", "refund-over-limit"): LARGE,
    ("docs/policy-apply.md", "refund-over-500"): [*refunds(500.5, 501, 1e9), *UNKNOWN],
    ("docs/policy.md", "refund-over-limit"): [*LARGE, *DELETIONS],
    ("docs/policy-apply.md", "never-above-10000"): [*refunds(10000.01, 1e9), *UNKNOWN],
    ("docs/policy-limits.md", "small-refunds"): [*refunds(0, 100, 100.01, 5000, region="eu"), *UNKNOWN],
    ("docs/policy-limits.md", "refunds (limit)"): [*refunds(1, 5000.5, 1e9), *UNKNOWN],
    ("docs/policy-language.md", "refunds"): LARGE,
    ("docs/policy-language.md", "orders"): [
        Call("order_goods", {"item": "desk", "amount": 1}),
        Call("order_goods"),
    ],
    ("docs/side-by-side.md", "never-the-machine"): commands(
        *("sudo id", "ls; sudo id", "ls\nsu", "(dd if=x of=y)", "chmod -R 777 /", "env", "kill -9 1"),
        *("rm -rf /", "git push --force origin main", "git reset --hard", "ls && kubectl delete pod x"),
    ),
    ("docs/side-by-side.md", "production"): commands(
        *("git push", "git push origin main", "terraform apply -auto-approve", "psql", None, ["git push"]),
    ),
    ("docs/side-by-side.md", "files"): [
        *(Call("write_file", {"path": "x"}), Call("execute_sql", {"query": "select 1"}), Call("execute_sql")),
        *(Call("update_row", {"table": "payments"}), Call("update_row")),
    ],
    ("docs/side-by-side.md", "only-main"): [
        *(
            Call("deploy", {"env": "production", "ref": ref})
            for ref in ("refs/heads/main", "refs/heads/x", None)
        ),
        *(Call("deploy", {"env": "production"}), Call("deploy", {"ref": "refs/heads/main"}), Call("deploy")),
    ],
    ("docs/gate.md", "cluster"): words(
        *(["kubectl", "delete", "pod", "shop"], ["kubectl"], ["kubectl", "get", "pods", "--as=admin"], []),
        *(["env", "kubectl", "get", "pods"], ["sh", "-c", "kubectl get pods"], "kubectl get pods", None),
        *(["/tmp/kubectl", "get", "pods"], ["kubectl", "get pods"], ["kubectl", "get", "pods", ""]),
    ),
    ("docs/coding-agents.md", "shell"): [
        *commands(
            *("git diff --output=/srv/u/.bashrc HEAD~1", "git log -1 --output=.git/hooks/post-checkout"),
            *(
                "git diff --no-index --output=/srv/u/x /dev/null /dev/null",
                "git log --output x",
                "git diff --ext-diff",
            ),
            *(
                "make test",
                "make test SHELL=/tmp/x",
                "make -f /tmp/x",
                "make -C /tmp test",
                "make --eval=x",
                "npm test",
            ),
            *(
                "cat /etc/passwd",
                "cat ~/.config/signoff/key",
                "ls /root",
                "ls -la /",
                "ls; rm x",
                "ls\nrm x",
                "ls\n",
            ),
            *(
                "git -c core.pager=x log",
                "git -c alias.status=!x status",
                "git --exec-path=/tmp status",
                "git -C / status",
            ),
            *(
                "git -p log",
                "git --git-dir=/tmp/x status",
                "git status; rm x",
                "git status && rm x",
                "git status || x",
            ),
            *(
                "git status | sh",
                "git status & rm x",
                "git status $(x)",
                "git status `x`",
                "git status > x",
                "git status <(x)",
            ),
            *(
                "git status\nrm x",
                "git status\r\nrm x",
                "git status\u2028rm x",
                "git status\x0brm x",
                "git status #",
                "git st",
            ),
            *(
                "GIT_PAGER=x git log",
                "PATH=/tmp git status",
                "env git status",
                "sudo ls",
                "command ls",
                "\\ls",
                "'ls' /",
            ),
            *(
                " git status",
                "git status ",
                "git  status",
                "git\tstatus",
                "GIT STATUS",
                "gіt status",
                "ls\u200b",
                "ｌｓ",
            ),
            *(
                "git log --oneline -20 --output=x",
                "git statusx",
                "./ls",
                "/tmp/ls",
                "ls {a,b}",
                "rm -rf build",
                "",
                None,
            ),
            *(["git status"], {"git status": 1}, 7, True),
        ),
        *commands("rm -rf build", "ls -R", tool="PowerShell"),
        *commands("tail -f x; rm y", tool="Monitor"),
        Call("Bash"),
        Call("Bash", {"cmd": "ls"}),
    ],
}
"""By page and the first checkpoint or limit of the example."""

EXAMPLES = [each for each in blocks() if each.language == "toml"]


def _key(block: Block) -> tuple[str, str]:
    policy = _policy(block)
    first = next(iter(policy.in_file_order), None)
    return block.page, first.checkpoint_id if first else f"{policy.limits[0].name} (limit)"


def _policy(block: Block) -> Policy:
    return checkpoints.load(block.code, filename=str(block))


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_each_example_asks_what_it_must(block: Block) -> None:
    """An example without such calls fails; a call counts if the example's own rules ask or deny, not the default."""
    calls = MUST_BE_ASKED.get(_key(block))
    assert calls, f"{block}: name calls that this example must ask people about"
    policy = _policy(block)
    assert [each for each in calls if not _asks(policy, each)] == []


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_signoff_check_has_nothing_to_say_about_an_example(block: Block) -> None:
    """The documentation shows nothing that `signoff check` warns of; what it calls a guard rail, the page does, too."""
    policy = _policy(block)
    found = lint_policy(policy, Registry(), str(block))
    guarded = {f'checkpoint "{each.checkpoint_id}"' for each in policy.denials}
    assert [
        each for each in found if "guard rail" not in each or not any(name in each for name in guarded)
    ] == []
    assert not found or "guard rail" in (ROOT / block.page).read_text(encoding="utf-8")


def test_no_example_is_forgotten_and_none_is_left_over() -> None:
    """One entry for each example."""
    assert sorted(map(_key, EXAMPLES)) == sorted(MUST_BE_ASKED)


def _asks(policy: Policy, call: Call) -> bool:
    action, traits = Action(call.tool, "external", call.arguments), ToolTraits(call.tool, "external")
    judged = policy.judge(traits, action, call.facts, "shop", None)
    if judged.denial is not None:
        return True
    own = {rule.checkpoint_id for rule in policy.rules}
    if judged.rule is not None and judged.rule.checkpoint_id in own:
        return judged.verdict == "ask"
    if policy.observed:
        return any(each.applies for each in judged.observed)
    uses = policy.uses(action, call.facts, Caller("shop"))
    return any(each.verdict == "ask" for each in _full(uses))


def _full(uses: Iterable[Any]) -> Iterable[LimitState]:
    """When everything is used up."""
    return [LimitState(each, each.limit.max, Decimal(0)) for each in uses]
