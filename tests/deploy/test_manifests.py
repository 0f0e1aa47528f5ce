"""deploy/kubernetes: by Kubernetes' own schemas, the pods inside of KubeRay's kinds too."""

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from interlinear.cli import app
from service.settings import Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUBERNETES = "1.33"
MOUNTED = "/srv/interlinear"  # the volume that all of the cluster's pods see
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
BESIDE = {"submit.yaml", "train.yaml", "ray-service.yaml"}  # applied when somebody says so
DOCUMENTS = [
    (path.name, document)
    for path in sorted(FOLDER.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
# No package carries KubeRay's schemas: these are the fields of its API (ray.io/v1, KubeRay 1.6) that we use.
RAY_FIELDS = {
    "RayCluster": {
        "rayVersion", "authOptions", "enableInTreeAutoscaling", "autoscalerOptions",
        "headGroupSpec", "workerGroupSpecs",
    },
    "RayJob": {"clusterSelector", "entrypoint", "submitterPodTemplate"},
    "RayService": {"serveConfigV2", "rayClusterConfig"},
}  # fmt: skip


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod template that there is, and what it is of."""

    def of_cluster(name: str, spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{name} head", spec["headGroupSpec"]["template"]
        for group in spec["workerGroupSpecs"]:
            yield f"{name} {group['groupName']}", group["template"]

    for file, document in DOCUMENTS:
        spec = document.get("spec", {})
        name = f"{file} {document['kind']}"
        if document["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield name, spec["template"]
        elif document["kind"] == "RayCluster":
            yield from of_cluster(name, spec)
        elif document["kind"] == "RayService":
            yield from of_cluster(name, spec["rayClusterConfig"])
        elif document["kind"] == "RayJob":
            yield name, spec["submitterPodTemplate"]


PODS = dict(pods())


@pytest.mark.parametrize(
    "document",
    [pytest.param(document, id=f"{file}-{document['kind']}") for file, document in DOCUMENTS],
)
def test_every_document_is_what_its_schema_says(document):
    if document["kind"] in RAY_FIELDS:
        assert document["apiVersion"] == "ray.io/v1"
        assert document["spec"].keys() <= RAY_FIELDS[document["kind"]]
        if document["kind"] == "RayService":
            assert document["spec"]["rayClusterConfig"].keys() <= RAY_FIELDS["RayCluster"]
    else:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_every_pod_is_valid_and_restricted(name):
    """Also inside of KubeRay's kinds, whose own schema no package carries."""
    template = PODS[name]
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "any"}, "template": template},
        KUBERNETES,
        strict=True,
    )
    pod = template["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"] + pod.get("initContainers", []):
        hardened = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["securityContext"] == hardened
        assert {"cpu", "memory"} <= container["resources"]["limits"].keys() & container["resources"]["requests"].keys()
        volumes = {volume["name"] for volume in pod.get("volumes", [])} | {"data"}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes


def test_pods_that_answer_say_whether_they_are_alive_and_ready():
    for name in ("service.yaml Deployment", "mlflow.yaml Deployment", "postgres.yaml StatefulSet"):
        (container,) = PODS[name]["spec"]["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    (service,) = PODS["service.yaml Deployment"]["spec"]["containers"]
    assert service["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert service["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_the_service_is_given_longer_to_end_than_it_takes():
    pod = PODS["service.yaml Deployment"]["spec"]
    before = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > before + Settings.model_fields["grace_seconds"].default


def test_the_kustomization_has_every_file_but_those_that_are_applied_alone():
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == (files - BESIDE) | {"../mlflow"}


def test_kubectl_builds_it():
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not here: apt-get install kubernetes-client")
    done = subprocess.run(["kubectl", "kustomize", FOLDER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    (auth,) = [document for document in built if document["kind"] == "ConfigMap"]
    (mlflow,) = [one for one in built if one["kind"] == "Deployment" and one["metadata"]["name"] == "mlflow"]
    volumes = {volume["name"]: volume for volume in mlflow["spec"]["template"]["spec"]["volumes"]}
    assert volumes["auth"]["configMap"]["name"] == auth["metadata"]["name"] != "mlflow-auth"
    assert "image: interlinear-train\n" not in done.stdout, "KubeRay's pods get their tag too"


def test_policies_let_in_by_labels_that_pods_have():
    labels = {template["metadata"]["labels"]["app.kubernetes.io/name"] for template in PODS.values()}
    policies = [document for _, document in DOCUMENTS if document["kind"] == "NetworkPolicy"]
    chosen = {policy["spec"]["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/name") for policy in policies}
    assert chosen == {*labels, None}, "every pod has a policy, beside the one that shuts all"


def test_trainings_are_asked_for_in_words_that_the_command_has():
    verbs = get_command(app).commands
    (job,) = [document for file, document in DOCUMENTS if document["kind"] == "RayJob"]
    submitter, services = PODS["submit.yaml Job"]["spec"]["containers"][0], []
    for command in (submitter["command"], shlex.split(job["spec"]["entrypoint"])):
        assert command[0] == "interlinear"
        given = verbs[command[1]].make_context(command[1], command[2:]).params
        assert given["storage"].startswith(MOUNTED) and given["register"] == "de-en"
        services.append(given["address"])
    (cluster,) = [document for _, document in DOCUMENTS if document["kind"] == "RayCluster"]
    assert services == [
        f"http://{cluster['metadata']['name']}-head-svc:8265",
        "auto",
    ]  # as KubeRay names a head's service
    assert f"--folder={MOUNTED}" in submitter["command"] and "--wait" in submitter["command"]
    token = {one["name"]: one for one in submitter["env"]}["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert token["name"] == cluster["spec"]["authOptions"]["secretName"] and token["key"] == "auth_token"
    (head,) = PODS["ray-cluster.yaml RayCluster head"]["spec"]["containers"]
    assert {"name": "work", "mountPath": MOUNTED} in head["volumeMounts"]


def test_the_ray_service_is_asked_for_in_terms_that_the_service_has():
    (document,) = [document for file, document in DOCUMENTS if document["kind"] == "RayService"]
    (application,) = yaml.safe_load(document["spec"]["serveConfigV2"])["applications"]
    settings = Settings(**application["args"]["settings"])
    assert settings.models and settings.tracking == "http://mlflow:5000"
    on_ray = pytest.importorskip("service.on_ray", reason="the service on Ray is not in this checkout")
    assert application["import_path"] == f"{on_ray.__name__}:{on_ray.build.__name__}"
    on_ray.Deployment(**application["args"])
