"""Streaming responses as server-sent events: prefixes of each text's output while it is searched, then the full
answer."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interlinear.generation.request import GenerationResult
from interlinear.translation.split_input import SplitInput
from service.http.dependencies import Caller, Service
from service.http.middleware import internal_error
from service.models import ServedModel
from service.problems import CLIENT_CLOSED_REQUEST, RETRYABLE_STATUSES, Problem, problem_json

MEDIA_TYPE = "text/event-stream"
NO_WEIGHT = re.compile(r"q=0(\.0*)?")
HEARTBEAT = b": alive\n\n"

EVENT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; or, if `Accept` requests it, events: `prefix` (the output so far for the text "
        "`index`), then `answer` (the same as the ordinary answer) or `error` (a problem)",
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": 'event: prefix\ndata: {"index": 0, "text": "A dog"}\n\n'
                'event: answer\ndata: {"translatedText": "A dog is running."}\n\n',
            }
        },
    }
}


class OutputStream:
    """The partial outputs of one request. The engine calls its methods on the event loop."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.changed = asyncio.Event()
        self._request_indices: Sequence[int] = ()
        self._inputs: Sequence[SplitInput[ServedModel]] = ()
        self._segment_of_sentence: list[tuple[int, int]] = []  # for each sentence: its text, and its index in that text
        self._parts: list[list[str]] = []  # output so far, by text and sentence
        self._done: list[list[bool]] = []
        self._shown: list[str] = []
        self._write: Callable[[str], str] = str

    def start(
        self, request_indices: Sequence[int], inputs: Sequence[SplitInput[ServedModel]], write: Callable[[str], str]
    ) -> None:
        """Called before the search: the inputs, their indices in the request, and the function that escapes
        outputs."""
        self._request_indices, self._inputs, self._write = request_indices, inputs, write
        self._segment_of_sentence = [(i, j) for i, each in enumerate(inputs) for j, _ in enumerate(each.places)]
        self._parts = [[""] * len(each.places) for each in inputs]
        self._done = [[False] * len(each.places) for each in inputs]
        self._shown = [""] * len(inputs)

    def on_accepted(self) -> None:
        self.started.set()

    def on_prefix(self, index: int, ids: list[int]) -> None:
        i, j = self._segment_of_sentence[index]
        source = self._inputs[i]
        request = replace(source.request, options=source.last.options)
        text = source.last.model.translator.decode_prefix(ids, request)
        sentence, part = source.places[j]
        self._parts[i][j] = sentence.format_prefix(part, text)
        self.changed.set()

    def on_answer(self, index: int, answer: GenerationResult) -> None:
        i, j = self._segment_of_sentence[index]
        sentence, part = self._inputs[i].places[j]
        formatted = sentence.format_answer(part, replace(answer, explanation=None))
        self._parts[i][j], self._done[i][j] = formatted.candidates[0].text, True
        self.changed.set()

    def prefixes(self) -> list[tuple[int, str]]:
        """The outputs that have changed since the last call, as (index of the text in the request, output so far).

        The output of a sentence is included once all sentences before it are complete.
        """
        self.changed.clear()
        prefixes = []
        for i, (request_index, source) in enumerate(zip(self._request_indices, self._inputs, strict=True)):
            done = self._done[i]
            complete = done.index(False) + 1 if False in done else len(done)
            text = source.join(self._parts[i][:complete])
            if text.strip() and text != self._shown[i]:
                self._shown[i] = text
                prefixes.append((request_index, self._write(text)))
        return prefixes


class EventStreamResponse(Response):
    """Sends events as they are produced.

    Starlette's own streaming response listens for a disconnect itself, and would abort before the work could count it.
    Here only the work listens (`Caller.wait_for`), and the events end with it.
    """

    media_type = MEDIA_TYPE

    def __init__(self, chunks: AsyncGenerator[bytes, None]) -> None:
        self.chunks = chunks
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})  # asks a proxy to forward each event immediately

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.chunks) as chunks:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def respond_or_stream(
    caller: Caller, service: Service, work: Callable[[OutputStream | None], Coroutine[Any, Any, Response]]
) -> Response:
    """The work's response or, if the client accepts them, events. Raises Problem before the first event."""
    if not accepts_events(caller.request.headers.get("accept", "")):
        return await caller.wait_for(work(None))
    stream = OutputStream()
    working = asyncio.ensure_future(caller.wait_for(work(stream)))
    begins = asyncio.ensure_future(stream.started.wait())
    try:
        await asyncio.wait((working, begins), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        working.cancel()
        raise
    finally:
        begins.cancel()
    if working.done():
        working.result()  # raises the Problem of a refused request
    return EventStreamResponse(event_stream(caller, service, stream, working))


def accepts_events(accept: str) -> bool:
    """Whether an Accept header names the media type of server-sent events, with a weight above 0."""
    ranges = (part.lower().replace(" ", "").split(";") for part in accept.split(","))
    return any(
        media_type == MEDIA_TYPE and not any(NO_WEIGHT.fullmatch(parameter) for parameter in parameters)
        for media_type, *parameters in ranges
    )


async def event_stream(
    caller: Caller, service: Service, stream: OutputStream, working: "asyncio.Task[Response]"
) -> AsyncGenerator[bytes, None]:
    """Yield events until the work is done. Closing the generator cancels the work."""
    try:
        while not working.done():
            changed = asyncio.ensure_future(stream.changed.wait())
            try:
                await asyncio.wait(
                    (working, changed), timeout=service.settings.heartbeat_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                quiet = not changed.done() and not working.done()
            finally:
                changed.cancel()
            if quiet:
                yield HEARTBEAT
            for index, text in stream.prefixes():
                yield format_event("prefix", json.dumps({"index": index, "text": text}, ensure_ascii=False))
        try:
            yield format_event("answer", bytes(working.result().body).decode())
        except Problem as problem:
            if problem.status in RETRYABLE_STATUSES:
                service.auth.refund(caller.request.scope["state"])
            if problem.status != CLIENT_CLOSED_REQUEST:
                yield format_event("error", problem_json(problem, caller.request.state.request_id))
        except Exception as error:
            request_id = caller.request.state.request_id
            yield format_event("error", problem_json(internal_error(error, request_id), request_id))
    finally:
        working.cancel()


def format_event(name: str, data: str) -> bytes:
    """One event, with its data as JSON on one line. A lone surrogate is written as a JSON escape."""
    escaped = data.encode("utf-8", "backslashreplace")
    return b"event: " + name.encode() + b"\ndata: " + escaped + b"\n\n"
