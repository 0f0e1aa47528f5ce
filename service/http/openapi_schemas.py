"""Request bodies as named schemas of the OpenAPI document, of which client generators make named types."""

from typing import Any

from service.http.parsing import JSON, MULTIPART, URLENCODED

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

    Forms have no null: a field is absent or, if it may not be repeated, empty. They have no lists but of fields that
    may be repeated: another list is a text.
    """
    if "anyOf" not in field:
        return field
    absent = [] if repeated or {"type": "null"} not in field["anyOf"] else [{"const": ""}]
    branches = [branch for branch in field["anyOf"] if branch != {"type": "null"}]
    if not repeated:
        branches = [{"type": "string"} if branch.get("type") == "array" else branch for branch in branches]
    return {name: value for name, value in field.items() if name != "default"} | {"anyOf": branches + absent}
