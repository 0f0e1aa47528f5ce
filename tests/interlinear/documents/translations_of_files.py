"""Files with their segments translated by a function of the text."""

from collections.abc import Callable

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file


def texts(data: str | bytes, name: str) -> list[str]:
    """The texts of a file."""
    return [segment.text for segment in parse_file(as_bytes(data), name).segments]


def translated(data: str | bytes, name: str, translate: Callable[[str], AlignedText]) -> bytes:
    """The file with every segment translated."""
    file = parse_file(as_bytes(data), name)
    return file.render([translate(segment.text) for segment in file.segments])


def as_bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data
