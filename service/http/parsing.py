"""Parsing of request bodies (JSON, URL-encoded or multipart) into typed requests."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from string import hexdigits
from typing import Any, NoReturn, TypeVar

from fastapi import Request
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header

from service.engine.preparation import run_inline_or_in_thread
from service.http.body_budget import BodyReservation
from service.http.dependencies import ServiceDep
from service.http.multipart import MAX_FIELDS, decode_utf8, parse_multipart
from service.http.requests import ApiRequest
from service.problems import Problem, excerpt, validation_problem

T = TypeVar("T", bound=ApiRequest)

JSON, URLENCODED, MULTIPART = "application/json", "application/x-www-form-urlencoded", "multipart/form-data"
CHUNKED = "transfer-encoding"  # a header of bodies without a length
MAX_VALUES = 20_000  # JSON values in a body, in addition to a list of as many texts as a request may have
INLINE_BYTES = 2**14  # bytes that are parsed, whatever they contain, about as fast as a thread wakes up
CHUNK_BYTES = 2**16  # bytes processed at a time
ESCAPES = re.compile(rb"(?:%[0-9A-Fa-f]{2})+")
ESCAPED = {f"%{a}{b}".encode(): bytes([int(a + b, 16)]) for a in hexdigits for b in hexdigits}


def parsed_body(kind: type[T]) -> Callable[..., Awaitable[T]]:
    """A dependency that authenticates the caller and parses the body as a `kind`.

    Raises Problem: 400 with the field at fault, 401, 403, 408, 413, 415, 429. A key in a header, and the rate of an
    address, are checked before any byte of the body is held; a key in the body before the other fields are validated.
    """

    async def read(request: Request, service: ServiceDep) -> T:
        authenticated_by_header = service.auth.authenticate_headers(request)
        held: BodyReservation = request.state.body
        try:
            media, options = media_type(request)
            content = await read_body(request)
            query: bytes = request.scope["query_string"]
            max_values = MAX_VALUES + 2 * service.settings.texts
            inline = len(content) <= INLINE_BYTES
            fields = await run_inline_or_in_thread(
                inline, parse, kind, content, media, options, max_values, query, executor=service.parse_executor
            )
        except Problem as problem:
            if not authenticated_by_header:
                service.auth.charge_rejected(request, problem)
            raise
        if not authenticated_by_header:
            api_key = fields.get("api_key")
            service.auth.authenticate(request, api_key if isinstance(api_key, str) else None)
            held.authenticated()
        parsed_request: T = await run_inline_or_in_thread(
            inline, validate, kind, fields, media == JSON, executor=service.parse_executor
        )
        held.shrink_to(parsed_request.retained_bytes)
        return parsed_request

    return read


async def read_body(request: Request) -> bytes:
    """The body's bytes. Raises Problem if it is refused or incomplete. Unlike `Request.body`, nothing keeps a second
    copy."""
    chunks = []
    try:
        async for chunk in request.stream():
            chunks.append(chunk)
    except Problem:
        chunks.clear()  # else the traceback holds them until the answer is sent, which can take as long as the rest
        raise
    return b"".join(chunks)


def media_type(request: Request) -> tuple[str, dict[bytes, bytes]]:
    """The body's media type and its parameters; no body at all is an empty form. Raises Problem 415."""
    headers = request.headers
    if "content-type" not in headers and headers.get("content-length", "0") == "0" and CHUNKED not in headers:
        return URLENCODED, {}
    media_bytes, options = parse_options_header(request.headers.get("content-type") or b"")
    media = media_bytes.decode("latin-1")
    if media not in (JSON, URLENCODED, MULTIPART):
        raise Problem(415, f"a body is {JSON}, {URLENCODED} or {MULTIPART}, not {excerpt(media) or 'of no type'}")
    if (charset := options.get(b"charset", b"utf-8").decode("latin-1").lower()) not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(415, f"a body's text is UTF-8, not {excerpt(charset)}")
    if (coding := request.headers.get("content-encoding", "identity").lower()) != "identity":
        raise Problem(415, f"a body is sent as it is, without the content encoding {excerpt(coding)}")
    return media, options


def parse(
    kind: type[ApiRequest],
    content: bytes,
    media: str,
    options: dict[bytes, bytes],
    max_values: int,
    query: bytes = b"",
) -> dict[str, Any]:
    """The fields of a body of one of the three media types, by name, unvalidated. `max_values`: limit on JSON values.
    `query`: the query of the address, which has fields too where the body is a form or empty.

    Memory and time are bounded by the body's length, whatever its content. Raises Problem.
    """
    if media == JSON:
        check_values(content, max_values)
        return parse_json(content)
    pairs = parse_multipart(content, options, kind.file_field) if media == MULTIPART else parse_urlencoded(content)
    return collect_fields([*parse_urlencoded(query), *pairs], kind)


def validate(kind: type[T], fields: dict[str, Any], strict: bool) -> T:
    """The fields as a `kind`. Form values are text; `strict` prevents converting text to numbers. Raises Problem."""
    try:
        return kind.model_validate(fields, strict=strict)
    except ValidationError as error:
        raise validation_problem(error, known_fields=kind.names()) from None


def check_values(content: bytes, max_values: int) -> None:
    """Raises Problem for JSON with more than `max_values` values, before any of them is created.

    An empty list takes three bytes of the body and sixty of memory, and the parser holds the GIL. Values are estimated
    by counting, chunk by chunk, the opening brackets and separators outside of strings.
    """
    count, inside, position = 0, 0, 0
    while position < len(content):
        piece = content[position : position + CHUNK_BYTES]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and position + CHUNK_BYTES < len(content):
            piece = piece[:-1]  # do not split an escape
        position += len(piece)
        parts = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')  # split at the quotes around strings
        outside = b"".join(parts[inside::2])
        count += len(outside) - len(outside.translate(None, b"[{,:"))
        if count > max_values:
            raise Problem(400, f"the body is nested too deep, or has more than {max_values:,} values")
        inside = (inside + len(parts) - 1) % 2


def parse_json(content: bytes) -> dict[str, Any]:
    """Parse JSON strictly (RFC 8259): UTF-8, no NaN, no duplicate keys, at most `MAX_FIELDS` keys. Raises Problem."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > MAX_FIELDS:  # every unknown key would be looked up and reported
            raise Problem(400, f"the body has an object of more than {MAX_FIELDS} fields")
        parsed = dict(pairs)
        if len(parsed) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise Problem.in_field(excerpt(twice), "is given twice")
        return parsed

    def not_json(constant: str) -> NoReturn:
        raise Problem(400, f"the body is not JSON: {constant} is no JSON number")

    try:
        parsed = json.loads(decode_utf8(content), object_pairs_hook=members, parse_constant=not_json)
    except json.JSONDecodeError as error:
        raise Problem(400, f"the body is not JSON: {error.msg}, line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise Problem(400, "the body is not JSON of ours: it is nested too deep") from None
    except ValueError:  # Python refuses integers of thousands of digits
        raise Problem(400, "the body is not JSON of ours: a number in it is too long") from None
    if not isinstance(parsed, dict):
        raise Problem(400, "the body must be a JSON object", error="Invalid JSON format")
    return parsed


def parse_urlencoded(content: bytes) -> list[tuple[str, str]]:
    """The fields of a URL-encoded form. Raw UTF-8, as `curl -d` sends it, is accepted beside %-escapes. Raises
    Problem."""
    if not content:
        return []
    decode_utf8(content)
    fields = [field.partition(b"=") for field in content.split(b"&", MAX_FIELDS)]
    if len(fields) > MAX_FIELDS or not all(equals for _, equals, _ in fields):
        raise Problem(400, f"the form is malformed: it must be name=value, joined by &, {MAX_FIELDS} at most")
    try:
        return [(url_decode(name), url_decode(value)) for name, _, value in fields]
    except UnicodeDecodeError:
        raise Problem(400, "the form is malformed: an escape in it is not UTF-8") from None


def url_decode(text: bytes) -> str:
    """Decode a form's name or value: `+` is a space, and `%XX` a byte. Raises UnicodeDecodeError.

    `urllib.parse` creates an object for every escape, which takes fifty times the memory of the text; this works in
    chunks.
    """
    decoded, position = bytearray(), 0
    while position < len(text):
        end = position + CHUNK_BYTES
        if end < len(text) and (escape_start := text.rfind(b"%", end - 2, end)) >= 0:
            end = escape_start  # do not split an escape
        decoded += ESCAPES.sub(_decode_escapes, text[position:end].replace(b"+", b" "))
        position = end
    return decoded.decode()


def _decode_escapes(escapes: "re.Match[bytes]") -> bytes:
    return ESCAPED.get(escapes[0]) or bytes.fromhex(escapes[0].decode().replace("%", ""))


def collect_fields(pairs: Sequence[tuple[str, Any]], kind: type[ApiRequest]) -> dict[str, Any]:
    """A form's fields by name. Those that the kind of request lets a form repeat may occur several times and are then
    lists. An empty field counts as absent; an empty file does not, nor a repeatable field that is required."""
    fields: dict[str, Any] = {}
    for name, value in pairs:
        repeatable = name in kind.repeatable_fields
        if name in fields and not repeatable:
            raise Problem.in_field(excerpt(name), "is given twice")
        if not (value or isinstance(value, bytes) or (repeatable and kind.model_fields[name].is_required())):
            continue
        previous = fields.get(name)
        if previous is None:
            fields[name] = value
        else:
            fields[name] = [*(previous if isinstance(previous, list) else [previous]), value]
    return fields
