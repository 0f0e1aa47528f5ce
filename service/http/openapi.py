"""The OpenAPI document: operation ids, request bodies, problem details, keys, and links between routes."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from interlinear.config import Task
from interlinear.source_names import MT
from service.http.dependencies import TIMEOUT_HEADER, Service
from service.http.parsing import JSON, MULTIPART, URLENCODED
from service.http.requests import ApiRequest
from service.inference.images import MEDIA_TYPES
from service.models import ServedModel, ServedModels
from service.problems import ProblemDetails, problem_responses
from service.settings import Settings

TIMEOUT_PARAMETER = {
    "name": TIMEOUT_HEADER,
    "in": "header",
    "description": "Seconds until the request times out (504); at most the service's own limit.",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}

TEXT_ROUTES: dict[Task, tuple[str, str]] = {  # task -> (route, field that holds the text)
    "translation": ("/translate", "q"),
    "multimodal": ("/translate/multimodal", "q"),
    "post-edit": ("/post-edit", "translation"),
    "summarization": ("/summarize", "text"),
}
RESPONSE_BODY = "$response.body#"


def operation_id(route: APIRoute) -> str:
    """The id of a route's operation, the name of its function in generated clients: the route's name."""
    return route.name


def install_openapi(app: FastAPI) -> None:
    """Make `app.openapi` add problem details, keys and links to FastAPI's document, which is created once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            service: Service = app.state.service
            description = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            details = ProblemDetails.model_json_schema(ref_template=SCHEMA_REFERENCE)
            schemas = description.setdefault("components", {}).setdefault("schemas", {})
            schemas.update(details.pop("$defs", {}), ProblemDetails=details)
            remove_validation_errors(description)
            name_request_schemas(description)
            add_security_schemes(description, service.settings)
            add_examples(description, service.models)
            add_links(description, service.models)
            app.openapi_schema = description
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def body_documentation(kind: type[ApiRequest]) -> dict[str, Any]:
    """The `openapi_extra` of a route that parses a body: the body, the timeout header, and the errors of
    authentication and parsing."""
    schema = kind.model_json_schema(ref_template=SCHEMA_REFERENCE)
    schema["properties"] = {name: schema["properties"][name] for name in kind.names()}
    form = schema | {
        "properties": {n: form_schema(f, n in kind.repeatable_fields) for n, f in schema["properties"].items()}
    }
    content: dict[str, Any] = {
        JSON: {"schema": schema, "example": kind.example},
        URLENCODED: {"schema": form, "example": kind.example},
        MULTIPART: {"schema": form, "example": kind.example},
    }
    if name := kind.file_field:
        description = schema["properties"][name]["description"].replace(" in base64", ", as a file or in base64")
        properties = form["properties"] | {name: {"type": "string", "format": "binary", "description": description}}
        example = {field: value for field, value in kind.example.items() if field != name}
        content[MULTIPART] = {
            "schema": schema | {"properties": properties},
            "encoding": {name: {"contentType": ", ".join(MEDIA_TYPES)}},
            "example": example,
        }
    return documentation_of(content)


def upload_documentation(kind: type[ApiRequest], parameters: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The `openapi_extra` of a route whose body is a multipart form with a file, and which takes these parameters."""
    schema = kind.model_json_schema(ref_template=SCHEMA_REFERENCE)
    properties = {name: schema["properties"][name] for name in kind.names()}
    schema["properties"] = {name: form_schema(f, name in kind.repeatable_fields) for name, f in properties.items()}
    return documentation_of({MULTIPART: {"schema": schema, "example": kind.example}}, parameters)


def documentation_of(content: dict[str, Any], parameters: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """The `openapi_extra` for the content of a body, by media type."""
    errors = problem_responses(400, 401, 403, 408, 413, 415, 429)
    return {
        "parameters": [TIMEOUT_PARAMETER, *parameters],
        "requestBody": {"required": True, "content": content},
        "responses": {str(status): response for status, response in errors.items()},
    }


def remove_validation_errors(description: dict[str, Any]) -> None:
    """Remove FastAPI's own error of invalid parameters: every text in a path is valid, and fields have problems."""
    for methods in description["paths"].values():
        for operation in methods.values():
            if "HTTPValidationError" in str(operation["responses"].get("422", "")):
                del operation["responses"]["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        description["components"]["schemas"].pop(name, None)


def add_security_schemes(description: dict[str, Any], settings: Settings) -> None:
    """Declare which operations take a key: operations that do work, `/models`, and optionally the metrics."""
    if settings.key_store is None:
        return
    description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    for path, methods in description["paths"].items():
        for operation in methods.values():
            required = settings.metrics_key if path == "/metrics" else settings.require_key
            works = "requestBody" in operation or path.startswith(("/glossaries", "/files/"))
            if works or (path == "/metrics" and required):
                operation["security"] = [{"key": []}] if required else [{}, {"key": []}]
            elif path == "/models":
                operation["security"] = [{}, {"key": []}]


def add_examples(description: dict[str, Any], models: ServedModels) -> None:
    """Write the examples of requests in the languages of the first model for a route's task, with one of the model's
    example texts."""
    tasks: dict[str, Task] = {path: task for task, (path, _) in TEXT_ROUTES.items()}
    for path, methods in description["paths"].items():
        served = models.for_task(tasks.get(path, "translation"))
        if served and "requestBody" in (operation := methods.get("post", {})):
            own = example_fields(served[0])
            for body in operation["requestBody"]["content"].values():
                body["example"] = {name: own.get(name, value) for name, value in body["example"].items()}


def example_fields(model: ServedModel) -> dict[str, str]:
    """Values of request fields for a model. Where no example has a translation, in suggestions and glossaries, it
    stands for one."""
    source, target = model.language_pair
    fields = {"source": source, "target": target, "source_lang": source, "target_lang": target}
    texts = next(iter(model.facts.examples), {})
    if text := texts.get(model.source):
        longest = max(text.split(), key=len).strip(".,!?")
        fields |= {"q": text, "text": text, "source_text": text, "s": text, "entries": f"{longest}\t{longest}"}
    return fields | ({"translation": texts[MT]} if MT in texts else {})


def add_links(description: dict[str, Any], models: ServedModels) -> None:
    """Add links from `/models`, `/languages` and `/frontend/settings` to the routes of the tasks that are served.

    An index in their lists keeps its task and its languages while the service runs, whichever version is served.
    """
    for i, model in enumerate(models.served):
        if model is models.for_task(model.task)[0]:
            item = f"{RESPONSE_BODY}/{i}"
            fields = {"model": f"{{{item}/name}}@{{{item}/version}}"}
            if model.task != "summarization":
                fields |= {"source": f"{item}/languages/source", "target": f"{item}/languages/target"}
            _add_link(description, "/models", model.task, f"By a version of the first model for {model.task}", fields)
    for i, targets in enumerate(models.languages().values()):
        if targets:
            fields = {"source": f"{RESPONSE_BODY}/{i}/code", "target": f"{RESPONSE_BODY}/{i}/targets/0"}
            _add_link(description, "/languages", "translation", "From a language into the first that it can be", fields)
            break
    if models.for_task("translation"):
        fields = {"source": f"{RESPONSE_BODY}/language/source/code", "target": f"{RESPONSE_BODY}/language/target/code"}
        _add_link(
            description, "/frontend/settings", "translation", "Between the languages that a page shows first", fields
        )


def _add_link(description: dict[str, Any], start: str, task: Task, about: str, fields: dict[str, str]) -> None:
    """Add one link from a route's answer to a task's route, with the text of the task's example."""
    path, text = TEXT_ROUTES[task]
    target = description["paths"][path]["post"]
    example = target["requestBody"]["content"][JSON]["example"]
    description["paths"][start]["get"]["responses"]["200"].setdefault("links", {})[task] = {
        "operationId": target["operationId"],
        "description": about,
        "requestBody": {text: example[text]} | fields,
    }


SCHEMA_REFERENCE = "#/components/schemas/{model}"
SUFFIXES = {JSON: "Request", URLENCODED: "Form", MULTIPART: "MultipartForm"}


def name_request_schemas(description: dict[str, Any]) -> None:
    """Move the schema of every request body to the components, and leave a reference.

    Each media type has its own name, such as `TranslateRequest`, `TranslateForm` and `TranslateMultipartForm`:
    generated clients choose the media type by the type of the body.
    """
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    for methods in description["paths"].values():
        for operation in methods.values():
            for media, body in operation.get("requestBody", {}).get("content", {}).items():
                schema = dict(body["schema"])
                schemas.update(schema.pop("$defs", {}))
                name = schema["title"].removesuffix("Request") + SUFFIXES[media]
                schemas[name] = schema | {"title": name}
                body["schema"] = {"$ref": SCHEMA_REFERENCE.format(model=name)}


def form_schema(field: dict[str, Any], repeated: bool) -> dict[str, Any]:
    """The schema of a field in a form.

    Forms have no null: a field is absent or, if it may not be repeated, empty. Only fields that may be repeated are
    lists: another list is a text.
    """
    if "anyOf" not in field:
        return field
    absent = [] if repeated or {"type": "null"} not in field["anyOf"] else [{"const": ""}]
    branches = [branch for branch in field["anyOf"] if branch != {"type": "null"}]
    if not repeated:
        branches = [{"type": "string"} if branch.get("type") == "array" else branch for branch in branches]
    return {name: value for name, value in field.items() if name != "default"} | {"anyOf": branches + absent}
