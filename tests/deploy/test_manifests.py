"""deploy/kubernetes: checked by Kubernetes' own schemas, including the pods inside KubeRay's kinds."""

import asyncio
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import sqlalchemy
import yaml
from promql_parser import parse as parse_promql
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from interlinear.errors import KeyFileError
from service import ray_serve
from service.auth.key_cache import KeyCache
from service.auth.key_store import KeyStore
from service.metrics import Metrics
from service.settings import Settings
from tests.deploy.calls import options_of
from tests.interlinear.registry.servers import postgres

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUBERNETES = "1.33"
MOUNTED = "/srv/interlinear"  # the volume that all pods of the cluster mount
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
BESIDE = {"submit.yaml", "train.yaml", "ray-service.yaml"}  # applied separately, on demand
COMPONENTS = sorted(path.parent.name for path in FOLDER.glob("*/kustomization.yaml"))
VALUES = "queue-scaling/prometheus-adapter.yaml"  # of a Helm chart
DOCUMENTS = [
    (str(path.relative_to(FOLDER)), document)
    for path in sorted(FOLDER.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and str(path.relative_to(FOLDER)) != VALUES
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]
# No package contains KubeRay's schemas: these are the fields of its API (ray.io/v1, KubeRay 1.6) that we use.
RAY_FIELDS = {
    "RayCluster": {
        "rayVersion", "authOptions", "enableInTreeAutoscaling", "autoscalerOptions",
        "headGroupSpec", "workerGroupSpecs",
    },
    "RayJob": {"clusterSelector", "entrypoint", "submitterPodTemplate"},
    "RayService": {"serveConfigV2", "rayClusterConfig"},
}  # fmt: skip
# Nor those of the Gateway API (gateway.networking.k8s.io/v1).
GATEWAY_FIELDS = {"Gateway": {"gatewayClassName", "listeners"}, "HTTPRoute": {"parentRefs", "hostnames", "rules"}}
ROUTE_FIELDS = {"matches", "filters", "backendRefs", "timeouts"}


def pods() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod template, and the object that contains it."""

    def of_cluster(name: str, spec: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield f"{name} head", spec["headGroupSpec"]["template"]
        for group in spec["workerGroupSpecs"]:
            yield f"{name} {group['groupName']}", group["template"]

    for file, document in DOCUMENTS:
        spec = document.get("spec", {})
        name = f"{file} {document['kind']}"
        if document["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield name, spec["template"]
        elif document["kind"] == "CronJob":
            yield name, spec["jobTemplate"]["spec"]["template"]
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
def test_every_document_conforms_to_its_schema(document):
    if document["kind"] in RAY_FIELDS:
        assert document["apiVersion"] == "ray.io/v1"
        assert document["spec"].keys() <= RAY_FIELDS[document["kind"]]
        if document["kind"] == "RayService":
            assert document["spec"]["rayClusterConfig"].keys() <= RAY_FIELDS["RayCluster"]
    elif document["kind"] in GATEWAY_FIELDS:
        assert document["apiVersion"] == "gateway.networking.k8s.io/v1"
        assert document["spec"].keys() == GATEWAY_FIELDS[document["kind"]]
        assert all(rule.keys() <= ROUTE_FIELDS for rule in document["spec"].get("rules", []))
    else:
        kubernetes_validate.validate(document, KUBERNETES, strict=True)


@pytest.mark.parametrize("name", PODS)
def test_every_pod_is_valid_and_restricted(name):
    """Including those inside KubeRay's kinds, whose own schema no package contains."""
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


def test_pods_with_ports_have_liveness_and_readiness_probes():
    for name in ("service.yaml Deployment", "mlflow.yaml Deployment", "postgres.yaml StatefulSet"):
        (container,) = PODS[name]["spec"]["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
    (service,) = PODS["service.yaml Deployment"]["spec"]["containers"]
    assert service["livenessProbe"]["httpGet"]["path"] == "/health/live"
    assert service["readinessProbe"]["httpGet"]["path"] == "/health/ready"


def test_the_service_gets_more_time_to_end_than_it_takes():
    pod = PODS["service.yaml Deployment"]["spec"]
    before = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > before + Settings.model_fields["grace_seconds"].default


def test_the_kustomization_has_every_file_except_separate_ones():
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(KUSTOMIZATION["resources"]) == (files - BESIDE) | {"../mlflow", "../postgres"}


def built(folder: Path) -> list[dict[str, Any]]:
    """The documents that `kubectl apply -k` would apply."""
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not here: apt-get install kubernetes-client")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    documents = list(yaml.safe_load_all(done.stdout))
    assert len(documents) > len(KUSTOMIZATION["resources"])
    return documents


def called(documents: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in documents if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def container(documents: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """The container of a Deployment; its environment by name."""
    (found,) = called(documents, "Deployment", name)["spec"]["template"]["spec"]["containers"]
    return found | {"env": {one["name"]: one.get("value") for one in found["env"]}}


@pytest.fixture
def with_component(tmp_path):
    """The documents applied with these components, as enabled by a line in kustomization.yaml."""

    def build(*names: str) -> list[dict[str, Any]]:
        shutil.copytree(FOLDER.parent, tmp_path / "deploy", dirs_exist_ok=True)
        file, asked = tmp_path / "deploy" / "kubernetes" / "kustomization.yaml", f"components: [{', '.join(names)}]"
        file.write_text(file.read_text().replace("# components: [" + ", ".join(ORDER) + "]", asked))
        assert f"\n{asked}" in file.read_text()
        return built(file.parent)

    return build


ORDER = ["gateway", "gpu", "queue-scaling", "bucket"]


def test_kubectl_builds_it():
    documents = built(FOLDER)
    mlflow = called(documents, "Deployment", "mlflow")
    volumes = {volume["name"]: volume for volume in mlflow["spec"]["template"]["spec"]["volumes"]}
    names = {one["metadata"]["name"] for one in documents if one["kind"] == "ConfigMap"}
    assert volumes["auth"]["configMap"]["name"] in names and "mlflow-auth" not in names
    postgres = called(documents, "StatefulSet", "postgres")["spec"]["template"]["spec"]
    assert {volume["name"]: volume for volume in postgres["volumes"]}["first-start"]["configMap"]["name"] in names
    assert "image: interlinear-train\n" not in yaml.safe_dump(documents), "KubeRay's pods get their tag too"


def test_the_components_are_those_that_are_named():
    assert sorted(ORDER) == COMPONENTS


@pytest.mark.parametrize("name", COMPONENTS)
def test_kubectl_builds_it_with_a_component(name, with_component):
    for document in with_component(name):
        if document["kind"] not in RAY_FIELDS | GATEWAY_FIELDS:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)


def test_components_go_together(with_component):
    documents = with_component(*ORDER)
    service = container(documents, "service")
    assert service["env"]["INTERLINEAR_SERVE_DEVICE"] == "cuda" and service["env"]["INTERLINEAR_SERVE_METRICS_KEY"]
    assert service["env"]["INTERLINEAR_SERVE_KEYS"] and "nvidia.com/gpu" in service["resources"]["limits"]
    assert {one["type"] for one in called(documents, "HorizontalPodAutoscaler", "service")["spec"]["metrics"]} == {
        "Pods",
        "Resource",
    }
    assert container(documents, "mlflow")["env"]["ARTIFACTS"].startswith("s3://")


def test_prometheus_discovers_the_pods_themselves():
    """Its Helm chart's job `kubernetes-pods` reads a pod's own annotations, and keeps its name as the label `pod`,
    which distinguishes the queues; targets found by a Service's annotations have no such label, and would be counted
    twice."""
    (service,) = PODS["service.yaml Deployment"]["spec"]["containers"]
    said = PODS["service.yaml Deployment"]["metadata"]["annotations"]
    assert said == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(service["ports"][0]["containerPort"]),
        "prometheus.io/path": "/metrics",
    }
    services = [document for _, document in DOCUMENTS if document["kind"] == "Service"]
    assert services and not any("annotations" in one["metadata"] for one in services)


def test_gpus_are_requested_and_used(with_component):
    documents = with_component("gpu")
    service = container(documents, "service")
    assert service["resources"]["limits"]["nvidia.com/gpu"] == service["resources"]["requests"]["nvidia.com/gpu"] == 1
    assert Settings(device=service["env"]["INTERLINEAR_SERVE_DEVICE"]).devices == ("cuda",)
    strategy = called(documents, "Deployment", "service")["spec"]["strategy"]["rollingUpdate"]
    assert strategy["maxSurge"] == 0, "no GPU is there for one pod more"
    tested = container(built(FOLDER), "service")
    assert service["env"].items() > tested["env"].items(), "a component adds"


def seen_as(settings: Settings, address: str, forwarded: str) -> str:
    """The client address that the service determines from this address and this X-Forwarded-For."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["client"][0])

    seen: list[str] = []
    headers = [(b"x-forwarded-for", forwarded.encode())]
    scope = {"type": "http", "scheme": "http", "client": (address, 1), "headers": headers}
    proxies: Any = ProxyHeadersMiddleware(app, list(settings.trusted_proxies))  # as uvicorn and service.ray_serve do
    asyncio.run(proxies(scope, None, None))
    return seen[0]


def test_clients_behind_the_gateway_are_distinguished(with_component, monkeypatch):
    documents = with_component("gateway")
    for name, value in container(documents, "service")["env"].items():
        monkeypatch.setenv(name, value or "")
    settings = Settings()
    assert settings.metrics_key
    controller, stranger = "10.20.30.40", "192.0.2.9"
    assert seen_as(settings, controller, "203.0.113.5") == "203.0.113.5"
    assert seen_as(settings, controller, f"{stranger}, 203.0.113.5") == "203.0.113.5", "what a client writes is not it"
    assert seen_as(settings, stranger, "203.0.113.5") == stranger


def test_the_gateway_ends_tls_and_waits_for_answers(with_component):
    documents = with_component("gateway")
    listeners = {one["name"]: one for one in called(documents, "Gateway", "interlinear")["spec"]["listeners"]}
    assert {name: one["protocol"] for name, one in listeners.items()} == {"http": "HTTP", "https": "HTTPS"}
    assert listeners["https"]["tls"]["certificateRefs"] == [{"name": "interlinear-tls"}]
    routes = {
        one["spec"]["parentRefs"][0]["sectionName"]: one["spec"] for one in documents if one["kind"] == "HTTPRoute"
    }
    for name, route in routes.items():
        assert route["parentRefs"][0]["name"] == "interlinear"
        assert route["hostnames"] == [listeners[name]["hostname"]]
    (redirected,), (answered,) = routes["http"]["rules"], routes["https"]["rules"]
    assert "backendRefs" not in redirected and redirected["filters"][0]["requestRedirect"]["scheme"] == "https"
    (backend,) = answered["backendRefs"]
    service = called(documents, "Service", backend["name"])
    assert backend["port"] in {port["port"] for port in service["spec"]["ports"]}
    assert int(answered["timeouts"]["request"].removesuffix("s")) > Settings().seconds


def test_pods_are_scaled_by_their_queues(with_component):
    scaler = called(with_component("queue-scaling"), "HorizontalPodAutoscaler", "service")["spec"]
    (by_queue,) = [one["pods"] for one in scaler["metrics"] if one["type"] == "Pods"]
    metric = by_queue["metric"]["name"]
    assert metric in {one.name for one in Metrics().registry.collect()}
    (rule,) = yaml.safe_load((FOLDER / VALUES).read_text())["rules"]["custom"]
    assert re.fullmatch(rule["name"]["matches"], metric) and "as" not in rule["name"]
    parse_promql(rule["seriesQuery"])
    query = rule["metricsQuery"].replace("<<.Series>>", metric).replace("<<.GroupBy>>", "pod")
    parse_promql(query.replace("<<.LabelMatchers>>", 'namespace="interlinear",pod=~"service-1|service-2"'))
    assert 1 <= int(by_queue["target"]["averageValue"]) <= Settings().slots


def test_artifacts_in_a_bucket_can_be_reached(with_component):
    documents = with_component("bucket")
    mlflow = container(documents, "mlflow")
    assert mlflow["env"]["ARTIFACTS"].startswith("s3://") and '"$ARTIFACTS"' in mlflow["command"][-1]
    assert mlflow["envFrom"] == [{"secretRef": {"name": "interlinear-bucket"}}]
    policies = [one for one in documents if one["kind"] == "NetworkPolicy"]
    assert reaches(policies, "mlflow", WORLD, 443) and not reaches(POLICIES, "mlflow", WORLD, 443)


# Allowed network connections.

POLICIES = [document for file, document in DOCUMENTS if document["kind"] == "NetworkPolicy" and "/" not in file]
WORLD = "the world"
NODE_CACHE = "169.254.20.10/32"  # NodeLocal DNSCache, on the node's own network
MAY_ASK = {"interlinear.example.org/may-ask": "true"}
HEAD = {"ray.io/node-type": "head"}  # as KubeRay labels it
# Pods of other namespaces: the labels of their namespace, and their own, as KubeRay 1.6 writes them.
OTHERS = {
    "kuberay by Helm": ({}, {
        "app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/instance": "kuberay-operator",
        "app.kubernetes.io/component": "kuberay-operator",
    }),
    "kuberay by its manifests": ({}, {
        "app.kubernetes.io/name": "kuberay", "app.kubernetes.io/component": "kuberay-operator",
    }),
    "gateway": (MAY_ASK, {"app.kubernetes.io/name": "envoy"}),
    "a stranger": ({}, {"app.kubernetes.io/name": "service"}),
    "name server": ({"kubernetes.io/metadata.name": "kube-system"}, {"k8s-app": "kube-dns"}),
    "OpenShift's name server": ({"kubernetes.io/metadata.name": "openshift-dns"}, {}),
}  # fmt: skip


def chosen(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a Kubernetes label selector matches these labels."""
    for one in selector.get("matchExpressions", []):
        assert one["operator"] == "In"
        if labels.get(one["key"]) not in one["values"]:
            return False
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items())


def labels_of(who: str) -> tuple[dict[str, str] | None, dict[str, str]]:
    """The labels of a pod's namespace (None: ours) and its own."""
    if who in OTHERS:
        return OTHERS[who]
    name, _, head = who.partition(" ")
    return None, {"app.kubernetes.io/name": name} | (HEAD if head else {})


def is_peer(peer: dict[str, Any], who: str) -> bool:
    if "ipBlock" in peer:
        return peer["ipBlock"]["cidr"] == NODE_CACHE == f"{who}/32"
    namespace, labels = labels_of(who)
    ours = {"kubernetes.io/metadata.name": "interlinear"}
    if "namespaceSelector" in peer:
        if not chosen(peer["namespaceSelector"], ours if namespace is None else namespace):
            return False
    elif namespace is not None:
        return False
    return chosen(peer.get("podSelector", {}), labels)


def reaches(policies: list[dict[str, Any]], source: str, target: str, port: int) -> bool:
    """Whether TCP connections from one pod to the other are allowed by the NetworkPolicy API."""

    def allows(pod: str, direction: str, other: str) -> bool:
        namespace, labels = labels_of(pod)
        if pod == WORLD or f"{pod}/32" == NODE_CACHE or namespace is not None:
            return True  # policies of other namespaces are unknown
        specs = [policy["spec"] for policy in policies]
        mine = [one for one in specs if direction in one["policyTypes"] and chosen(one["podSelector"], labels)]
        side = {"Ingress": "from", "Egress": "to"}[direction]
        for rule in [rule for one in mine for rule in one.get(direction.lower(), [])]:
            ports = [one["port"] for one in rule.get("ports", []) if one["protocol"] == "TCP"]
            if "ports" in rule and port not in ports:
                continue
            if side not in rule or (other != WORLD and any(is_peer(peer, other) for peer in rule[side])):
                return True
        return not mine

    return allows(source, "Egress", target) and allows(target, "Ingress", source)


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("mlflow", "postgres", 5432), ("service", "postgres", 5432), ("ray-serve", "postgres", 5432),
        ("service", "mlflow", 5000), ("ray", "mlflow", 5000), ("ray-serve", "mlflow", 5000),
        ("ray", "ray", 6379), ("ray-serve", "ray-serve head", 6379), ("ray-submitter", "ray", 8265),
        ("kuberay by Helm", "ray", 8265), ("kuberay by its manifests", "ray", 8265),
        ("kuberay by Helm", "ray-serve head", 8265), ("kuberay by Helm", "ray-serve head", 8000),
        ("kuberay by its manifests", "ray-serve head", 8000),
        ("gateway", "service", 8000), ("gateway", "ray-serve", 8000), ("backup", "postgres", 5432),
        ("gateway", "ray", 8080), ("ray", WORLD, 443), ("ray-serve head", WORLD, 443),
        ("service", "name server", 53), ("ray-serve", "name server", 53), ("service", "169.254.20.10", 53),
        ("service", "OpenShift's name server", 5353), ("backup", "OpenShift's name server", 5353),
    ],
)  # fmt: skip
def test_required_connections_are_allowed(source, target, port):
    assert reaches(POLICIES, source, target, port)


@pytest.mark.parametrize(
    ("source", "target", "port"),
    [
        ("a stranger", "service", 8000), ("a stranger", "postgres", 5432), ("a stranger", "mlflow", 5000),
        ("a stranger", "ray", 8265), ("gateway", "postgres", 5432), ("gateway", "mlflow", 5000),
        ("gateway", "ray", 8265), ("gateway", "ray-serve", 8265), ("ray", "postgres", 5432),
        ("backup", WORLD, 443), ("service", "backup", 80), ("service", WORLD, 53), ("service", "name server", 443),
        ("ray-submitter", "postgres", 5432), ("service", "ray", 8265), ("ray-serve", "ray", 8265),
        ("ray", "ray-serve", 8265), ("kuberay by Helm", "postgres", 5432), ("kuberay by Helm", "mlflow", 5000),
        ("service", WORLD, 443), ("ray-serve", WORLD, 443), ("mlflow", WORLD, 443), ("postgres", WORLD, 443),
        ("service", "postgres", 22), ("mlflow", "service", 8000),
    ],
)  # fmt: skip
def test_other_connections_are_denied(source, target, port):
    assert not reaches(POLICIES, source, target, port)


def test_policies_select_labels_that_pods_have():
    """Both sides of every rule: the pods that a policy applies to, and those in `from` and `to`."""
    labels = {template["metadata"]["labels"]["app.kubernetes.io/name"] for template in PODS.values()}
    assert {"service", "mlflow", "postgres", "ray"} <= labels
    everybody = {*labels, *(f"{name} head" for name in labels), *OTHERS}
    for policy in POLICIES:
        spec = policy["spec"]
        assert any(chosen(spec["podSelector"], labels_of(who)[1]) for who in everybody - OTHERS.keys())
        rules = [(rule, side) for kind, side in (("ingress", "from"), ("egress", "to")) for rule in spec.get(kind, [])]
        for peer in [peer for rule, side in rules for peer in rule.get(side, [])]:
            known = any(is_peer(peer, who) for who in everybody | {NODE_CACHE.removesuffix("/32")})
            assert known, (policy["metadata"]["name"], peer)
    for name in labels:
        mine = [one for one in POLICIES if chosen(one["spec"]["podSelector"], {"app.kubernetes.io/name": name})]
        assert len(mine) > 1, "every pod has a policy, beside the one that shuts all"


def test_services_that_share_keys_can_reach_the_key_store():
    ray = yaml.safe_load(next(d for _, d in DOCUMENTS if d["kind"] == "RayService")["spec"]["serveConfigV2"])
    settings = ray["applications"][0]["args"]["settings"]
    assert settings["require_key"] is True
    for name in ("service.yaml Deployment", "ray-service.yaml RayService cpu"):
        (service,) = PODS[name]["spec"]["containers"]
        given = {one["name"]: one for one in service["env"]}
        assert given["PGPASSWORD"]["valueFrom"]["secretKeyRef"] == {"name": "interlinear", "key": "keys_password"}
        assert given["INTERLINEAR_SERVE_KEYS"]["value"] == settings["keys"]
    (postgres,) = PODS["postgres.yaml StatefulSet"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in postgres["env"]}
    mounted = {one["name"]: one["mountPath"] for one in postgres["volumeMounts"]}
    assert given["KEYS_PASSWORD_FILE"] == mounted["secrets"] + "/keys_password"
    assert mounted["first-start"] == "/docker-entrypoint-initdb.d"


@pytest.mark.parametrize("rights", ["SUPERUSER", "CREATEDB CREATEROLE"], ids=["our server", "a managed one"])
def test_the_first_start_of_postgresql_creates_the_keys_database(tmp_path, rights):
    """The image's first-start script, against a real server; the keys' user can access only the keys."""
    if not shutil.which("psql"):
        pytest.skip("psql is not here: apt-get install postgresql-client")
    (tmp_path / "keys_password").write_text("it's random\n")
    with postgres("postgres", "s3cret") as address:
        url = sqlalchemy.make_url(address)
        engine = sqlalchemy.create_engine(address, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE ROLE mlflow LOGIN PASSWORD 's3cret' {rights}")
            connection.exec_driver_sql("CREATE DATABASE mlflow OWNER mlflow")
        environment = {
            "PATH": os.environ["PATH"], "PGHOST": url.host, "PGPORT": str(url.port), "PGPASSWORD": "s3cret",
            "POSTGRES_USER": "mlflow", "POSTGRES_DB": "mlflow", "KEYS_PASSWORD_FILE": str(tmp_path / "keys_password"),
        }  # fmt: skip
        script = FOLDER.parent / "postgres" / "keys.sh"
        subprocess.run(["bash", "-eo", "pipefail", "-c", f". {script}"], env=environment, check=True)
        mine = url.set(username="interlinear", password="it's random", database="interlinear")
        store = KeyStore(mine.render_as_string(hide_password=False))
        key = store.add("app")
        assert KeyCache(store).find(key)
        store.close()
        with pytest.raises(KeyFileError, match="permission denied for database"):
            KeyStore(mine.set(database="mlflow").render_as_string(hide_password=False)).list_keys()


def test_training_jobs_use_existing_command_options():
    (job,) = [document for file, document in DOCUMENTS if document["kind"] == "RayJob"]
    submitter, services = PODS["submit.yaml Job"]["spec"]["containers"][0], []
    for command in (submitter["command"], shlex.split(job["spec"]["entrypoint"])):
        assert command[0] == "interlinear"
        given = options_of(command[1:])
        assert given["storage"].startswith(MOUNTED) and given["register"] == "de-en"
        services.append(given["address"])
    (cluster,) = [document for _, document in DOCUMENTS if document["kind"] == "RayCluster"]
    assert services == [
        f"http://{cluster['metadata']['name']}-head-svc:8265",
        "auto",
    ]  # the name that KubeRay gives a head's service
    assert f"--folder={MOUNTED}" in submitter["command"] and "--wait" in submitter["command"]
    token = {one["name"]: one for one in submitter["env"]}["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]
    assert token["name"] == cluster["spec"]["authOptions"]["secretName"] and token["key"] == "auth_token"
    (head,) = PODS["ray-cluster.yaml RayCluster head"]["spec"]["containers"]
    assert {"name": "work", "mountPath": MOUNTED} in head["volumeMounts"]


POOLED = 2  # connections of a store of the service (service/store/database.py); each pod has three
MLFLOW_POOLED = 15  # of SQLAlchemy by default, 5 and 10 more; MLflow has a store of runs, of models, and of users


def test_postgresql_has_connections_for_every_pod():
    (postgres,) = PODS["postgres.yaml StatefulSet"]["spec"]["containers"]
    most = int(next(word for word in postgres["args"] if word.startswith("max_connections="))[16:])
    scaler = called([document for _, document in DOCUMENTS], "HorizontalPodAutoscaler", "service")["spec"]
    pods = scaler["maxReplicas"] + 1  # one more while a new version is rolled out
    assert most >= pods * 3 * POOLED + 3 * MLFLOW_POOLED + 3 + 1, "three are the administrator's, one is the backup's"
    assert f"max_connections={most}" in (FOLDER.parents[1] / "docker-compose.yml").read_text()


def test_both_databases_are_dumped_every_night():
    job = called([document for _, document in DOCUMENTS], "CronJob", "backup")["spec"]
    assert re.fullmatch(r"\d+ \d+ \* \* \*", job["schedule"]) and job["concurrencyPolicy"] == "Forbid"
    (container,) = PODS["backup.yaml CronJob"]["spec"]["containers"]
    (postgres,) = PODS["postgres.yaml StatefulSet"]["spec"]["containers"]
    assert container["image"] == postgres["image"], "pg_dump of another version may refuse"
    script = container["command"][-1]
    subprocess.run(["sh", "-nc", script], check=True)
    assert "for database in mlflow interlinear;" in script and "pg_dump " in script
    assert "backup.yaml" in (FOLDER.parents[1] / "docs" / "operations.md").read_text()


def test_the_ray_service_keeps_within_its_volume_and_is_not_drained_at_once():
    documents = [document for file, document in DOCUMENTS if file == "ray-service.yaml"]
    ray = called(documents, "RayService", "interlinear-ray")["spec"]
    settings = yaml.safe_load(ray["serveConfigV2"])["applications"][0]["args"]["settings"]
    for template in (PODS["ray-service.yaml RayService head"], PODS["ray-service.yaml RayService cpu"]):
        volumes = {one["name"]: one for one in template["spec"]["volumes"]}
        assert settings["cache_bytes"] < int(volumes["cache"]["emptyDir"]["sizeLimit"].removesuffix("Gi")) * 2**30
        budget = called(documents, "PodDisruptionBudget", "ray-serve")["spec"]
        assert budget["maxUnavailable"] == 1 and chosen(budget["selector"], template["metadata"]["labels"])


def test_the_ray_service_uses_existing_settings():
    (document,) = [document for file, document in DOCUMENTS if document["kind"] == "RayService"]
    (application,) = yaml.safe_load(document["spec"]["serveConfigV2"])["applications"]
    assert application["args"]["retry_seconds"] >= 3600, "a registry that comes late, or a first model, is waited for"
    settings = Settings(**application["args"]["settings"])
    assert settings.models and settings.tracking == "http://mlflow:5000"
    assert application["import_path"] == f"{ray_serve.__name__}:{ray_serve.build.__name__}"
    asked = ray_serve.ServeDeployment(**application["args"])
    # Ray gives a deployment up after so many replicas failed to start.
    deployment = ray_serve.build(asked)._bound_deployment
    assert deployment._deployment_config.max_constructor_retry_count > 3
    assert deployment.init_args[1] == asked.retry_seconds, "and each waits by itself"
