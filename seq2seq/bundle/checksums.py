"""Checksums of files, and of JSON objects that contain their own checksum."""

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
    """SHA-256 of a JSON object without its own checksum, independent of white space and the order of keys."""
    others = {key: value for key, value in content.items() if key != CHECKSUM_KEY}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_checked_json(path: Path, required: bool = True) -> dict[str, Any]:
    """Read a JSON object from a file and verify its own checksum.

    required: whether the object must have one; a model card that was edited by hand has none. Raises OSError;
    ValueError for invalid JSON or another type; ChecksumError for a wrong or missing checksum.
    """
    return parse_checked_json(path.read_bytes(), required)


def parse_checked_json(data: bytes, required: bool = True) -> dict[str, Any]:
    """`read_checked_json` for the content of a file."""
    try:
        content = json.loads(data.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    own_checksum = content.get(CHECKSUM_KEY)
    if (own_checksum or required) and own_checksum != content_checksum(content):
        raise ChecksumError("its content is not what its own checksum says")
    return content


class ChecksumError(ValueError):
    """A JSON object does not match its own checksum."""
