"""Writing HTML (HTML Living Standard, 13.3)."""

from collections.abc import Collection, Mapping

from documents.events import AttributeText


def escape(text: str) -> str:
    """A text as HTML: &, < and > become character references."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """A text as a value in double quotes."""
    return escape(text).replace('"', "&quot;")


def write_tag(name: str, attributes: Mapping[str, str], translated: Collection[str]) -> tuple[str, list[AttributeText]]:
    """A start tag, and the places of its attributes whose names are in `translated`."""
    markup, places = f"<{name}", []
    for attribute, value in attributes.items():
        start = len(markup) + 1
        markup += f' {attribute}="{escape_attribute(value)}"'
        if attribute in translated:
            places.append(AttributeText(attribute, start, len(markup), value))
    return markup + ">", places
