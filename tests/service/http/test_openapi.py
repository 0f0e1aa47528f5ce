"""The OpenAPI description is right: it declares every limit and every problem."""

import copy
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from interlinear.bundle import load
from interlinear.generation.bundle_translator import BundleTranslator
from service.http.openapi import add_examples
from service.models import ServedModel, ServedModels


@pytest.fixture(scope="module")
def description(client) -> dict:
    return client.get("/openapi.json").json()


def body_schema(description: dict, route: str, media: str = "application/json") -> dict[str, Any]:
    """The schema of a request body, which is a component."""
    reference = description["paths"][route]["post"]["requestBody"]["content"][media]["schema"]["$ref"]
    return description["components"]["schemas"][reference.rpartition("/")[2]]


ROUTES = {"/translate": "q", "/summarize": "text"}
ALL = [*ROUTES, "/translate/multimodal", "/post-edit"]


@pytest.mark.parametrize(("route", "field"), ROUTES.items())
def test_every_limit_is_declared(description, route, field):
    body = description["paths"][route]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-www-form-urlencoded", "multipart/form-data"}
    schema = body_schema(description, route)
    fields = schema["properties"]
    assert next(iter(fields)) == field, "what is required comes first"
    text, texts = fields[field]["oneOf"]
    assert (text["maxLength"], texts["maxItems"], texts["items"]["maxLength"]) == (5000, 100, 5000)
    assert fields["beam_size"]["anyOf"][0]["maximum"] == 5
    assert fields["max_length"]["anyOf"][0]["maximum"] > 0
    assert schema["additionalProperties"] is False


def test_every_reference_is_of_a_component(description):
    text = json.dumps(description)
    references = set(re.findall(r'"\$ref": "([^"]+)"', text))
    names = {reference.removeprefix("#/components/schemas/") for reference in references}
    assert names <= set(description["components"]["schemas"])
    assert {"TranslateRequest", "TranslateForm", "TranslateMultipartForm"} <= names


def test_operations_have_the_names_that_clients_call(description):
    ids = [operation["operationId"] for methods in description["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids)
    assert {"translate", "translate_multimodal", "post_edit", "summarize", "detect", "list_languages"} <= set(ids)


def test_every_problem_is_declared_as_a_problem(description):
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            if path != "/translate/multimodal":
                assert "422" not in operation["responses"], "a wrong request is a 400, but for a picture"
            for status, response in operation["responses"].items():
                if status >= "400":
                    schema = response["content"]["application/problem+json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ProblemDetails"}, (path, method, status)
    assert "error" in description["components"]["schemas"]["ProblemDetails"]["properties"]
    for route in ALL:
        declared = set(description["paths"][route]["post"]["responses"])
        assert {"400", "401", "403", "408", "413", "415", "429", "503", "504"} <= declared


@pytest.mark.parametrize("route", [*ALL, "/detect"])
def test_the_example_request_is_answered(client, description, route):
    example = description["paths"][route]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert client.post(route, json=example).status_code == 200


def test_examples_are_in_the_languages_and_the_words_of_the_first_model(description, bundles):
    shown = load(bundles.de_en)
    french = replace(shown, card=shown.card.model_copy(update={"languages": {"source": "fr", "target": "en"}}))
    own = copy.deepcopy(description)
    add_examples(own, ServedModels([ServedModel("fr-en", "1", (), BundleTranslator(french, 1, 5))]))
    text = shown.card.examples[0]["source"]
    for route, fields in {
        "/translate": {"q": text, "source": "fr", "target": "en"},
        "/detect": {"q": text},
        "/translate_file": {"source": "fr", "target": "en"},
        "/suggest": {"q": text, "source": "fr", "target": "en"},
        "/glossaries": {"source_lang": "fr", "target_lang": "en", "entries": "läuft\tläuft"},
    }.items():
        for media, body in own["paths"][route]["post"]["requestBody"]["content"].items():
            assert {**body["example"], **fields} == body["example"], (route, media)
    example = description["paths"]["/post-edit"]["post"]["requestBody"]["content"]["application/json"]["example"]
    first = load(bundles.edits).card.examples[0]
    assert (example["source_text"], example["translation"]) == (first["source"], first["mt"])


@pytest.mark.parametrize("route", ALL)
def test_the_example_form_is_answered(client, description, route):
    content = description["paths"][route]["post"]["requestBody"]["content"]
    for media in ("application/x-www-form-urlencoded", "multipart/form-data"):
        fields = {name: str(value) for name, value in content[media]["example"].items()}
        posted = {"data": fields} if "url" in media else {"files": {name: (None, v) for name, v in fields.items()}}
        assert client.post(route, **posted).status_code == 200


def read_out(expression: str, answer: Any) -> Any:
    """Evaluate an OpenAPI runtime expression on a response, alone or in braces within a text."""
    if "{" in expression:
        return re.sub(r"\{(.*?)\}", lambda found: str(read_out(found[1], answer)), expression)
    if not expression.startswith("$response.body#/"):
        return expression
    for name in expression.partition("#/")[2].split("/"):
        answer = answer[int(name) if isinstance(answer, list) else name]
    return answer


LINKS = [
    *(("/models", task) for task in ("translation", "multimodal", "post-edit", "summarization")),
    ("/languages", "translation"),
    ("/frontend/settings", "translation"),
]


@pytest.mark.parametrize(("start", "task"), LINKS)
def test_a_link_can_be_followed(client, description, start, task):
    link = description["paths"][start]["get"]["responses"]["200"]["links"][task]
    (path,) = [
        path
        for path, methods in description["paths"].items()
        if methods.get("post", {}).get("operationId") == link["operationId"]
    ]
    found = client.get(start).json()
    body = {name: read_out(expression, found) for name, expression in link["requestBody"].items()}
    answer = client.post(path, json=body)
    assert answer.status_code == 200
    if "model" in body:
        assert body["model"] == "{name}@{version}".format(**answer.json()["model"])


def test_there_are_no_other_links(description):
    found = [
        (path, name)
        for path, methods in description["paths"].items()
        for operation in methods.values()
        for response in operation["responses"].values()
        for name in response.get("links", {})
    ]
    assert sorted(found) == sorted(LINKS)


def test_an_image_is_declared_as_a_file_and_as_base64(description):
    body = description["paths"]["/translate/multimodal"]["post"]["requestBody"]["content"]
    schema, form = (
        body_schema(description, "/translate/multimodal", media)["properties"]["image"]
        for media in ("application/json", "multipart/form-data")
    )
    (coded,) = (branch for branch in schema["anyOf"] if branch["type"] == "string")
    assert coded == {"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"}
    assert (form["type"], form["format"]) == ("string", "binary")
    assert body["multipart/form-data"]["encoding"] == {"image": {"contentType": "image/jpeg, image/png, image/webp"}}
    for said in (schema["description"], form["description"]):
        assert "10,000,000 bytes" in said
        assert "25,000,000 pixels" in said


def test_alternative_sources_are_not_required(description):
    assert body_schema(description, "/translate/multimodal")["required"] == ["source", "target"]
    assert body_schema(description, "/post-edit")["required"] == ["translation", "source", "target"]
    answer = description["components"]["schemas"]["Operation"]
    assert set(answer["properties"]) == {"op", "from", "to"}


@pytest.mark.parametrize("page", ["/", "/docs"])
def test_pages_load_nothing_from_elsewhere_and_have_no_inline_code(client, page):
    html = client.get(page).text
    parts = re.findall(r'(?:src|href)="([^"]+)"', html)
    assert parts
    assert all(part.startswith("/") and not part.startswith("//") for part in parts)
    assert "style=" not in html
    assert " onclick" not in html
    for part in parts:
        answer = client.get(part)
        assert answer.status_code == 200, part
        assert "http://" not in answer.text.replace("http://www.w3.org/", "")
        assert "https://" not in answer.text
    assert client.head(page).status_code == 200
