"""OpenAPI links: values in one route's answer that fill a request to another route."""

from typing import Any

from service.http.parsing import JSON
from service.models import ServedModels

TEXT_ROUTES = {  # task -> (route, field that holds the text)
    "translation": ("/translate", "q"),
    "multimodal": ("/translate/multimodal", "q"),
    "post-edit": ("/post-edit", "translation"),
    "summarization": ("/summarize", "text"),
}
RESPONSE_BODY = "$response.body#"


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


def _add_link(description: dict[str, Any], start: str, task: str, about: str, fields: dict[str, str]) -> None:
    """Add one link from a route's answer to a task's route, with the text of the task's example."""
    path, text = TEXT_ROUTES[task]
    target = description["paths"][path]["post"]
    example = target["requestBody"]["content"][JSON]["example"]
    description["paths"][start]["get"]["responses"]["200"].setdefault("links", {})[task] = {
        "operationId": target["operationId"],
        "description": about,
        "requestBody": {text: example[text]} | fields,
    }
