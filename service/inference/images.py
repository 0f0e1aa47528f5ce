"""Images of requests: base64 decoding, and decoding to pixels outside the event loop."""

import asyncio
import binascii
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema

from interlinear.errors import ImageError, ImageProblem
from interlinear.images.decode import decode_image
from service.metrics import Metrics
from service.problems import FieldProblem, Problem
from service.settings import Settings

MEDIA_TYPES = ("image/jpeg", "image/png", "image/webp")
BASE64_OVERHEAD = 1.5  # base64 is a third longer than the bytes; line breaks, escaped in JSON, add a little
DATA_URL_PREFIX = re.compile(r"data:[\w.+-]+/[\w.+-]+(?:;[\w.+-]+=[\w.+-]+)*;base64,", re.IGNORECASE | re.ASCII)
PREFIX_LENGTH = 200  # longest prefix matched: a match takes memory for each media type parameter
URL_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
BASE64_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
EXAMPLE_IMAGE = (  # 16 x 16 pixels: a ball on grass
    "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQAgMAAABinRfyAAAACVBMVEV+vuNgmULWajCfBqkWAAAALklEQVR42mNg"
    "wAaYFjAwMXBwMDAxKDAxMDEwMMCIB/8YmEPV1ZiZGP5vQJGAEQClmgUe+45PoAAAAABJRU5ErkJggg=="
)

STATUS_BY_PROBLEM: dict[ImageProblem, int] = {
    "empty": 400, "bytes": 413, "format": 415, "pixels": 422, "animated": 422, "damaged": 422,
}  # fmt: skip


def decode_base64(value: Any) -> Any:
    """An image's bytes: `value` itself if it is bytes, else decoded from base64. Raises ValueError for invalid
    base64.

    Both alphabets are accepted (RFC 4648, sections 4 and 5), with or without line breaks and padding, and after a
    `data:...;base64,` prefix.
    """
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a string of base64")
    text = value.strip()
    if prefix := DATA_URL_PREFIX.match(text[:PREFIX_LENGTH]):
        text = text[prefix.end() :]
    elif URL_SCHEME.match(text[:100]):
        raise ValueError("must be the picture itself, in base64: nothing is fetched from an address")
    data = text.encode("ascii", "replace").translate(None, b"\r\n")
    others = data.translate(None, BASE64_ALPHABET).rstrip(b"=")
    if others.strip(b"+/") and others.strip(b"-_"):
        raise ValueError(
            "must be base64; a + in a URL-encoded form is a space unless it is written %2B"
            if not others.strip(b"+/ ")
            else "must be base64, and has characters that are not"
        )
    if others[:1] in (b"-", b"_"):
        data = data.translate(bytes.maketrans(b"-_", b"+/"))
    if not data.endswith(b"="):
        data += b"=" * (-len(data) % 4)
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except binascii.Error:
        raise ValueError("must be base64, and is cut off or wrongly padded") from None


Base64Image = Annotated[
    bytes,
    BeforeValidator(decode_base64),
    WithJsonSchema({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/*"}),
]


class ImageDecoder:
    """Decodes images in a few threads: an image may take some hundred megabytes while it is decoded."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._executor = ThreadPoolExecutor(settings.image_threads, "images")

    async def decode(self, data: bytes, size: int, field: str) -> np.ndarray:
        """The pixels for the model, uint8 (size, size, 3). Raises Problem that names the field."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._executor, self._decode, data, size, field)
        except ImageError as error:
            self._metrics.rejected.labels(f"image_{error.kind}").inc()
            message = f"{error.problem}: {error.remedy}" if error.remedy else error.problem
            fields = [FieldProblem(field=field, problem=message)]
            raise Problem(STATUS_BY_PROBLEM[error.kind], f"{field} {message}", fields=fields) from None

    def _decode(self, data: bytes, size: int, field: str) -> np.ndarray:
        started = time.perf_counter()
        pixels = decode_image(data, size, field, self._settings.image_bytes, self._settings.image_pixels)
        self._metrics.image_seconds.observe(time.perf_counter() - started)
        return pixels

    def close(self) -> None:
        """Stop accepting images."""
        self._executor.shutdown(wait=False, cancel_futures=True)
