"""What the service is shipped with: the image, the compose file, the manifests, and the page for operators."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slackbot import settings
from slackbot.cli import project
from slackbot.settings import SECRETS, Settings
from tests.metric_families import families

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
NAMES = {
    str(field.validation_alias.choices[0])  # type: ignore[union-attr]
    for field in Settings.model_fields.values()
    if field.validation_alias is not None
} | {f"{name}_FILE" for name in SECRETS}
SETTINGS, METRICS, RUNBOOK = (
    (ROOT / "docs" / page).read_text(encoding="utf-8")
    for page in ("commands.md", "monitoring.md", "troubleshooting.md")
)


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of every manifest, with its file."""
    for path in sorted(KUBERNETES.glob("*.yaml")):
        for found in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, found


def of_kind(*kinds: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, each) for name, each in documents() if each["kind"] in kinds]


def pod_of(manifest: dict[str, Any]) -> dict[str, Any]:
    spec = manifest["spec"]
    template = spec["jobTemplate"]["spec"]["template"] if manifest["kind"] == "CronJob" else spec["template"]
    pod: dict[str, Any] = template["spec"]
    return pod


WORKLOADS = of_kind("Deployment", "Job", "CronJob")


@pytest.mark.parametrize(("name", "manifest"), WORKLOADS, ids=[name for name, _ in WORKLOADS])
def test_every_pod_is_confined(name: str, manifest: dict[str, Any]) -> None:
    """Not root, no rights to gain, nothing writable but /tmp, no token of the cluster, and bounded memory."""
    pod = pod_of(manifest)
    assert pod["automountServiceAccountToken"] is False, name
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10000
    assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        writable = [mount for mount in container["volumeMounts"] if not mount.get("readOnly")]
        assert [(mount["mountPath"], "emptyDir" in volumes[mount["name"]]) for mount in writable] == [
            ("/tmp", True)
        ]


@pytest.mark.parametrize(("name", "manifest"), WORKLOADS, ids=[name for name, _ in WORKLOADS])
def test_every_setting_in_a_manifest_exists_and_secrets_come_by_reference(
    name: str, manifest: dict[str, Any]
) -> None:
    """A name that no setting has would be ignored silently; a secret's value is in no manifest."""
    owners = {"signoff-migrate", "signoff-retention"}
    for container in pod_of(manifest)["containers"]:
        for variable in container["env"]:
            assert variable["name"] in NAMES, (name, variable["name"])
            assert ("value" in variable) == (variable["name"] not in SECRETS)
        given = {variable["name"] for variable in container["env"]}
        assert ("SIGNOFF_OWNER_URL" in given) == (manifest["metadata"]["name"] in owners)
    for _, plain in of_kind("ConfigMap"):
        assert set(plain["data"]) <= NAMES - set(SECRETS)


def test_the_settings_of_the_manifests_are_right(tmp_path: Path) -> None:
    """The values in the config map are read without a complaint."""
    [(_, plain)] = of_kind("ConfigMap")
    read = settings.read(plain["data"], tmp_path)
    assert read.public_url == "https://signoff.example.com"
    assert read.pre_stop_seconds + read.drain_seconds < 100


def test_each_role_has_a_deployment_with_probes_and_a_budget() -> None:
    """web, worker and scheduler are apart, two of each, and a drained node never takes the last one."""
    deployments = {each["metadata"]["name"]: each for _, each in of_kind("Deployment")}
    budgets = {each["metadata"]["name"]: each for _, each in of_kind("PodDisruptionBudget")}
    assert set(deployments) == set(budgets) == {"signoff-web", "signoff-worker", "signoff-scheduler"}
    for name, manifest in deployments.items():
        labels = manifest["spec"]["template"]["metadata"]["labels"]
        assert manifest["spec"]["selector"]["matchLabels"] == labels
        assert budgets[name]["spec"]["selector"]["matchLabels"] == labels
        assert manifest["spec"]["replicas"] > budgets[name]["spec"]["minAvailable"]
        [container] = pod_of(manifest)["containers"]
        assert container["args"] == ["serve", "--roles", name.removeprefix("signoff-")]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        health = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert str(ports["health"]) == health["SIGNOFF_HEALTH_PORT"]
        paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")}
        assert paths == {"liveness": "/healthz", "readiness": "/readyz"}
    [(_, service)] = of_kind("Service")
    web = deployments["signoff-web"]["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == web


def test_the_kustomization_lists_everything_but_the_secrets() -> None:
    """What is not listed would never be applied; the pattern for the secrets must not be."""
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    there = {path.name for path in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml", "secrets.example.yaml"}
    assert set(listed["resources"]) == there
    for _, example in of_kind("Secret"):
        assert set(example["stringData"]) <= set(SECRETS)
        assert not any(value.startswith(("xoxb-", "sk-")) for value in example["stringData"].values())


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_the_manifests() -> None:
    """`kubectl` makes of them what a cluster gets: the policy's name has its digest, the image its registry."""
    built = subprocess.run(
        ["kubectl", "kustomize", str(KUBERNETES)], capture_output=True, text=True, timeout=60, check=True
    )
    objects = list(yaml.safe_load_all(built.stdout))
    policy = [each["metadata"]["name"] for each in objects if each["kind"] == "ConfigMap"]
    assert any(re.fullmatch(r"signoff-policy-[a-z0-9]{10}", name) for name in policy)
    for each in objects:
        if each["kind"] == "Deployment":
            [container] = pod_of(each)["containers"]
            assert container["image"].startswith("registry.example.com/signoff:")
            assert pod_of(each)["volumes"][1]["configMap"]["name"] in policy


def compose(**environment: str) -> dict[str, Any]:
    """The services of the compose file; what is in braces is read as Compose reads it."""

    def value(found: re.Match[str]) -> str:
        name, _, otherwise = found[1].partition(":")
        if otherwise.startswith("?"):
            return environment[name]
        return environment.get(name) or otherwise.removeprefix("-")

    text = (ROOT / "compose.yaml").read_text(encoding="utf-8")
    services: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{([^}]*)\}", value, text))["services"]
    return services


def test_the_compose_file_migrates_before_it_serves() -> None:
    """PostgreSQL is healthy, then the migration ends well, then the service starts; ports are of this machine alone."""
    services = compose(POSTGRES_PASSWORD="p@ss/word")
    # On its socket PostgreSQL answers while it is still being set up, and is about to stop again.
    assert "-h 127.0.0.1" in services["database"]["healthcheck"]["test"][1]
    assert services["migrate"]["command"] == ["db", "upgrade"]
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    needs = services["signoff"]["depends_on"]["migrate"]["condition"]
    assert needs == "service_completed_successfully"
    assert all(port.startswith("127.0.0.1:") for port in services["signoff"]["ports"])
    for name in ("migrate", "signoff"):
        given = services[name]["environment"]
        assert set(given) <= NAMES | {"PGPASSWORD"}
        assert given["PGPASSWORD"] == services["database"]["environment"]["POSTGRES_PASSWORD"]
        assert services[name]["build"] == "."  # an image that is not built here would be looked for elsewhere
        assert services[name]["read_only"] is True
        assert services[name]["tmpfs"] == ["/tmp"]
        assert services[name]["cap_drop"] == ["ALL"]


def test_the_compose_file_runs_what_init_wrote(tmp_path: Path) -> None:
    """The folder of `signoff init`, with its `.env`, is all that the service needs: agents, policy and settings."""
    project.write(tmp_path)
    shutil.copy(tmp_path / ".env.example", tmp_path / ".env")
    service = compose(POSTGRES_PASSWORD="secret", SIGNOFF_FOLDER=str(tmp_path))["signoff"]
    [mount], [env] = service["volumes"], service["env_file"]
    assert (mount["source"], mount["read_only"]) == (str(tmp_path), True)
    assert mount["bind"] == {"create_host_path": False}
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert f"\nWORKDIR {mount['target']}\n" in docker
    assert Path(env) == tmp_path / ".env"
    read = settings.read(service["environment"], Path(mount["source"]))
    assert read.database_url is not None
    assert read.database_url.get_secret_value() == "postgresql://signoff@database:5432/signoff"
    assert (read.host, read.port, read.health_port) == ("0.0.0.0", 8080, 8081)
    assert [(tmp_path / f"{name}.py").is_file() for name in read.agents] == [True]
    assert (tmp_path / read.checkpoints).is_file()


def test_the_image_runs_as_nobody_of_importance() -> None:
    """The last stage installs nothing, runs as a number that is not 0, and looks after its own health."""
    *_, last = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")
    assert last.startswith("python:3.12-slim\n")
    assert not re.search(r"apt-get|pip install|gcc|build-essential", last)
    user = re.search(r"^USER (\d+):", last, re.MULTILINE)
    assert user
    assert int(user[1]) >= 10000
    [check] = re.findall(r"HEALTHCHECK [^\n]*\\\n\s+CMD (\[.*\])", last)
    assert "/healthz" in json.loads(check)[2]
    compile(json.loads(check)[2], "HEALTHCHECK", "exec")
    named = set(re.findall(r"\b(SIGNOFF_[A-Z_]+)=", last))
    assert named <= NAMES
    assert json.loads(re.findall(r"^ENTRYPOINT (.*)$", last, re.MULTILINE)[0]) == ["signoff"]


def test_the_builder_gets_everything_that_the_wheel_is_made_of() -> None:
    """The builder gets every path that the Dockerfile copies: the packages, and the script of the build."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in ignored if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == let_in
    assert all((ROOT / name).exists() for name in names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hatch = project["tool"]["hatch"]
    script = Path(hatch["metadata"]["hooks"]["custom"]["path"])
    assert {*hatch["build"]["targets"]["wheel"]["only-include"], script.parts[0]} <= names


def test_every_setting_is_documented_for_operators() -> None:
    """No setting can be found only in the code."""
    missing = [name for name in NAMES if not name.endswith("_FILE") and f"`{name}`" not in SETTINGS]
    assert missing == []


async def test_every_metric_is_documented_with_what_to_do() -> None:
    """The table of alerts has each name that a scrape can have, and no other."""
    exposed = {family.name for family in families()}
    named = {name.removesuffix("_total") for name in re.findall(r"`(signoff_[a-z_]+)", METRICS)}
    assert named == exposed


def test_every_finding_of_the_doctor_is_in_the_runbook() -> None:
    """Whatever `signoff doctor` may report has a row that says what it means."""
    modules = (ROOT / "slackbot" / "service").glob("*.py")
    source = "".join(each.read_text(encoding="utf-8") for each in modules)
    parts = set(re.findall(r'Finding\(\s*"([^"]+)"', source)) | set(
        re.findall(r'part = f"([a-z ]+) \{', source)
    )
    assert {"database", "channel", "user group", "model"} <= parts
    assert [part for part in parts if f"\n| {part} |" not in RUNBOOK] == []
