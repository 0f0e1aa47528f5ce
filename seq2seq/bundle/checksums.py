"""Checksums: of a file, and of a JSON object that carries its own."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHECKSUM_KEY = "content_sha256"  # the key of an object's own checksum


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object's keys and values without its own checksum, however the file spaces and orders them."""
    others = {key: value for key, value in content.items() if key != CHECKSUM_KEY}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_checked_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises ValueError for one that is no object, or is not what its own checksum says, and
    OSError. An object without a checksum, as earlier versions wrote it, has nothing to be compared with."""
    return parse_checked_json(path.read_bytes())


def parse_checked_json(data: bytes) -> dict[str, Any]:
    """The same of a file's content."""
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    if content.get(CHECKSUM_KEY) and content[CHECKSUM_KEY] != content_checksum(content):
        raise ChecksumError("its content is not what its own checksum says")
    return content


class ChecksumError(ValueError):
    """A JSON object is not what its own checksum says."""
