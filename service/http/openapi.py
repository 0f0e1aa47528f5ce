"""Links of OpenAPI: what an answer of one route gives for a request to another."""

from typing import Any

from service.http.parsing import JSON
from service.models import Models

TEXTS = {  # by task: its route, and the field of its text
    "translation": ("/translate", "q"),
    "multimodal": ("/translate/multimodal", "q"),
    "post-edit": ("/post-edit", "translation"),
    "summarization": ("/summarize", "text"),
}
BODY = "$response.body#"


def describe_links(description: dict[str, Any], models: Models) -> None:
    """Add to a description what follows from `/models`, `/languages` and `/frontend/settings`, for what is served.

    A place in their lists keeps its task and its languages while the service runs, whatever version stands in it.
    """
    for i, model in enumerate(models.served):
        if model is models.doing(model.task)[0]:
            one = f"{BODY}/{i}"
            fields = {"model": f"{{{one}/name}}@{{{one}/version}}"}
            if model.task != "summarization":
                fields |= {"source": f"{one}/languages/source", "target": f"{one}/languages/target"}
            _link(description, "/models", model.task, f"By a version of the first model for {model.task}", fields)
    for i, targets in enumerate(models.languages().values()):
        if targets:
            fields = {"source": f"{BODY}/{i}/code", "target": f"{BODY}/{i}/targets/0"}
            _link(description, "/languages", "translation", "From a language into the first that it can be", fields)
            break
    if models.doing("translation"):
        fields = {"source": f"{BODY}/language/source/code", "target": f"{BODY}/language/target/code"}
        _link(description, "/frontend/settings", "translation", "Between the languages that a page shows first", fields)


def _link(description: dict[str, Any], start: str, task: str, about: str, fields: dict[str, str]) -> None:
    """One link from a route's answer to a task's route, with the text of that one's example."""
    path, text = TEXTS[task]
    target = description["paths"][path]["post"]
    example = target["requestBody"]["content"][JSON]["example"]
    description["paths"][start]["get"]["responses"]["200"].setdefault("links", {})[task] = {
        "operationId": target["operationId"],
        "description": about,
        "requestBody": {text: example[text]} | fields,
    }
