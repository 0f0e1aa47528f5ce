"""Logging as text or JSON, without users' texts, keys, credentials and addresses.

Exceptions are logged by type and location, without their message, which may contain a user's text.
"""

import json
import logging
import re
import sys
from datetime import UTC, datetime
from types import FrameType, TracebackType
from typing import Literal

from interlinear.registry.credentials import mask_credentials

EXTRA_FIELDS = ("request_id", "method", "route", "status", "seconds", "key")  # fields taken from `extra`
CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")

LogFormat = Literal["text", "json"]
ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class TextFormatter(logging.Formatter):
    """Formats a record as one line of text."""

    def formatException(self, ei: ExceptionInfo) -> str:
        return exception_location(ei[1]) if ei[1] else ""

    def format(self, record: logging.LogRecord) -> str:
        parts = [record.getMessage(), *(f"{name}={value}" for name, value in _extra_fields(record).items())]
        if record.exc_info:
            parts.append(self.formatException(record.exc_info))
        words = mask_credentials(" ".join(parts).replace("\n", " "))
        return f"{_timestamp(record)} {record.levelname.lower()} {record.name}: {escape_control(words)}"


class JsonFormatter(TextFormatter):
    """Formats a record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_credentials(record.getMessage()),
            **_extra_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return escape_control(json.dumps(line, ensure_ascii=False))


def configure(style: LogFormat, access: bool) -> None:
    """Log warnings and worse of the whole process to stderr in one style; and every request, if `access`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # an error while logging would print the record unmasked
    for name in ("uvicorn.error", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)  # its warnings are about clients, not about the service
    logging.getLogger("interlinear").setLevel(logging.INFO)
    logging.getLogger("interlinear.access").setLevel(logging.INFO if access else logging.WARNING)


def escape_control(text: str) -> str:
    """A text without characters that begin a line or command a terminal: they are written as JSON escapes."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def exception_location(error: BaseException) -> str:
    """The type and location of an exception, without its message, which may contain a user's text."""
    frames, trace = [], error.__traceback__
    while trace:
        frames.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(frames[-4:])}"


def frame_location(frame: FrameType | None) -> str:
    """The location of a frame, in the format of `exception_location`."""
    frames: list[str] = []
    while frame and len(frames) < 4:
        frames.insert(0, f"{frame.f_code.co_filename}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(frames)


def _timestamp(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra_fields(record: logging.LogRecord) -> dict[str, str | int | float]:
    values = {name: getattr(record, name, None) for name in EXTRA_FIELDS}
    return {name: value for name, value in values.items() if value is not None}
