"""Prometheus metrics are right; the queries in deploy/ use existing metrics and are valid PromQL."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

import interlinear
from service.app import create_app
from service.metrics import REASONS
from service.settings import ServedModelConfig, Settings
from tests.service.conftest import sentences

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboard.json").read_text())
ALERTS = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
SHORT = {"q": "Ein Hund läuft.", "source": "de", "target": "en"}
LONG = SHORT | {"q": [german for german, _ in sentences()[:100]]}
DURATION = re.compile(r"\d+[smhd]")


def page(client: TestClient) -> dict[tuple[str, ...], float]:
    """Every value, by its name and the values of its labels, in alphabetical order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }


def names(families: str) -> dict[str, set[str]]:
    """The labels of every metric, by its name in queries."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(families):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_padding_occupancy_and_tokens_equal_those_of_the_search(one_model, bundles):
    """Single texts are padded only to the bucket of 8 positions; the batch has one text."""
    tokens = len(interlinear.load(bundles.de_en).tokenizers["source"].encode(SHORT["q"]).ids) + 1
    with TestClient(create_app(one_model.model_copy(update={"slots": 1}))) as client:
        client.post("/translate", json=SHORT | {"beam_size": 1})
        found = page(client)
    steps = found["interlinear_steps_total", "cpu", "de-en"]
    assert steps > 0 and found["interlinear_stepped_texts_total", "cpu", "de-en"] == steps
    assert found["interlinear_stepped_positions_total", "cpu", "text", "de-en"] == tokens * steps
    assert found["interlinear_stepped_positions_total", "cpu", "padding", "de-en"] == (-tokens % 8) * steps
    assert found["interlinear_tokens_total", "de-en", "read"] == tokens
    assert found["interlinear_slots", "cpu", "de-en"] == 1
    assert found["interlinear_ready",] == 1
    assert found["interlinear_queue_seconds_count", "de-en"] == found["interlinear_search_seconds_count", "de-en"] == 1
    assert found["process_resident_memory_bytes",] > 10**7


def test_every_refusal_reason_is_exported_from_the_start(one_model):
    app = create_app(one_model.model_copy(update={"slots": 1, "queue_texts": 20}))
    with TestClient(app) as client:
        rejected = {
            labels: value for labels, value in page(client).items() if labels[0] == "interlinear_rejected_total"
        }
        assert {reason for _, reason in rejected} == set(REASONS)
        assert not any(rejected.values())
        assert client.post("/translate", json=LONG, headers={"X-Request-Timeout": "0.05"}).status_code == 504
        assert page(client)["interlinear_rejected_total", "deadline"] == 1
        asking = threading.Thread(target=lambda: client.post("/translate", json=LONG))
        asking.start()
        while page(client)["interlinear_waiting_texts", "cpu"] < 50:
            assert asking.is_alive()
        assert page(client)["interlinear_waiting_tokens", "cpu"] > 50
        assert client.post("/translate", json=SHORT | {"max_length": 9}).status_code == 429
        assert page(client)["interlinear_rejected_total", "queue_texts"] == 1
        app.state.service.engine.stop(30)
        asking.join(30)
        assert client.post("/translate", json=SHORT).status_code == 503
        assert page(client)["interlinear_rejected_total", "stopping"] == 1
        assert page(client)["interlinear_ready",] == 0
        assert page(client)["interlinear_waiting_tokens", "cpu"] == 0


# deploy/


def queries() -> Iterator[tuple[str, str]]:
    """Every PromQL query in deploy/, with its location; Grafana's variables are substituted as Grafana does."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m").replace("$instance", ".*")
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            (inner,) = re.findall(r"label_values\((.*), \w+\)", variable["query"])
            yield variable["name"], inner
    for rule in RULES:
        yield rule["alert"], rule["expr"]


def nodes(query: str) -> list[Any]:
    """The nodes of a query's syntax tree."""
    found: list[Any] = []
    promql_parser.walk(promql_parser.parse(query), found.append)
    return found


@pytest.fixture(scope="module")
def exported(address, client, bundles) -> dict[str, set[str]]:
    """The metrics of a service, and of one with a reverse model, after each kind of activity."""
    assert client.post("/translate", json=SHORT).status_code == 200
    model = ServedModelConfig(name="de-en", uri=str(bundles.de_en), reverse=str(bundles.en_de))
    with TestClient(create_app(Settings(models=(model,), threads=1))) as explaining:
        assert explaining.post("/translate", json=SHORT | {"explain": True}).status_code == 200
        further = names(explaining.get("/metrics").text)
    return further | names(client.get("/metrics").text)


SCRAPED: dict[str, set[str]] = {"up": set()}  # series that Prometheus adds to a scrape
TARGET = {"job", "instance", "namespace", "le"}  # labels that Prometheus adds; `le` is a histogram's


@pytest.mark.parametrize(("where", "query"), queries())
def test_every_query_is_valid_promql_over_existing_metrics(exported, where, query):
    read = [one for one in nodes(query) if isinstance(one, promql_parser.VectorSelector)]
    aggregates = [one for one in nodes(query) if isinstance(one, promql_parser.AggregateExpr)]
    grouped = {label for one in aggregates if one.modifier is not None for label in one.modifier.labels}
    assert read, where
    for name, labels in [(one.name, {matcher.name for matcher in one.matchers.matchers}) for one in read]:
        known = exported | SCRAPED
        assert name in known, f"{where}: the service does not export {name}"
        assert labels | grouped <= known[name] | TARGET, f"{where}: {name} has no such label"


def test_shares_of_requests_are_of_requests_for_work():
    """Probes and scrapes are many and always answered: beside them a share of refused requests would be small."""
    shares = [query for _, query in queries() if query.count("interlinear_requests_total{") == 2 and " / " in query]
    assert len(shares) == 2, "the dashboard's and the alert's"
    for query in shares:
        requests = [one.matchers.matchers for one in nodes(query) if isinstance(one, promql_parser.VectorSelector)]
        routes = [[matcher.value for matcher in one if matcher.name == "route"] for one in requests]
        assert routes == [["/translate.*|/summarize|/post-edit"]] * 2, query


def series(name: str, values: str, **labels: str) -> dict[str, str]:
    """A series for promtool; values are one every 15 seconds."""
    return {"series": f"{name}{{{','.join(f'{key}={value!r}' for key, value in labels.items())}}}", "values": values}


def responses(route: str, status: int, values: str) -> dict[str, str]:
    return series("interlinear_requests_total", values, instance="a", route=route, method="POST", status=str(status))


@pytest.mark.parametrize(
    ("alert", "given", "minutes", "active"),
    [
        # The series of an error begins with the first one.
        ("InterlinearMistakes", [responses("/translate", 500, "_x19 1x80")], 6, True),
        ("InterlinearMistakes", [responses("/translate", 500, "_x19 1x80")], 17, False),
        ("InterlinearMistakes", [responses("/translate", 500, "1x80 2x40")], 22, True),
        ("InterlinearMistakes", [responses("/translate", 500, "1x80 1x40")], 22, False),
        ("InterlinearMistakes", [responses("/translate", 500, "4x30 _x10 1x40")], 12, True),  # after a restart
        ("InterlinearMistakes", [responses("/translate", 200, "0+9x80")], 6, False),
        (
            "InterlinearRefuses",
            [responses("/translate", 429, "0+1x80"), responses("/translate", 200, "0+9x80"),
             responses("/health/ready", 200, "0+90x80")],
            9, True,
        ),
        (
            "InterlinearRefuses",
            [responses("/translate", 200, "0+9x80"), responses("/health/ready", 503, "0+9x80")],
            9, False,
        ),
        ("InterlinearDown", [series("up", "1x20 0x20", job="interlinear", instance="a")], 7, True),
        ("InterlinearDown", [series("up", "1x40", job="interlinear", instance="a")], 7, False),
        (
            "InterlinearDown",
            [series("up", "1x20 0x20", job="kubernetes-pods", instance="a", namespace="interlinear")],
            7, True,
        ),
        ("InterlinearDown", [series("up", "0x40", job="kubernetes-pods", instance="a", namespace="shop")], 7, False),
        ("InterlinearDown", [series("up", "0x40", job="ray-worker", instance="a")], 7, False),
    ],
)  # fmt: skip
def test_alerts_over_samples(tmp_path, alert, given, minutes, active):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not here: apt-get install prometheus")
    (rule,) = [rule for rule in RULES if rule["alert"] == alert]
    expected = [{"labels": "{}", "value": 1}] if active else []
    question = {"expr": f"count({rule['expr']})", "eval_time": f"{minutes}m", "exp_samples": expected}
    test = {"interval": "15s", "input_series": given, "promql_expr_test": [question]}
    (tmp_path / "test.yaml").write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_is_valid_for_grafana():
    assert DASHBOARD["schemaVersion"] >= 39 and DASHBOARD["uid"] and DASHBOARD["title"]
    assert DASHBOARD["id"] is None, "an import gives it one"
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    for panel in PANELS:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] and panel["description"], panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    used = set(re.findall(r"\$\{?(\w+)\}?", json.dumps(PANELS))) - {"__rate_interval"}
    assert used == {variable["name"] for variable in DASHBOARD["templating"]["list"]}


def test_prometheus_loads_the_alert_rules():
    assert set(ALERTS) == {"groups"}
    assert len({group["name"] for group in ALERTS["groups"]}) == len(ALERTS["groups"])
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"}
        assert re.fullmatch(r"[A-Z]\w+", rule["alert"])
        assert DURATION.fullmatch(rule.get("for", "0s"))
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert set(rule["annotations"]) == {"summary", "description"}
    assert len({rule["alert"] for rule in RULES}) == len(RULES)


def test_alert_messages_use_the_alerts_labels():
    for rule in RULES:
        kept = set(re.findall(r"by ?\(([\w, ]+)\)", rule["expr"].split(" > ")[0]))
        for text in rule["annotations"].values():
            for label in re.findall(r"\{\{ ?\$labels\.(\w+) ?\}\}", text):
                assert not kept or any(label in names.split(", ") for names in kept), (rule["alert"], label)
            assert (
                text.count("{{")
                == text.count("}}")
                == len(re.findall(r"\{\{ ?\$(?:labels\.\w+|value)[^{}]*\}\}", text))
            )
