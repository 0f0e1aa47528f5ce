"""Answers as they are written: server-sent events with what every text's answer begins with, then the answer itself."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from seq2seq.generate import Answer
from seq2seq.text import UNKNOWN
from service.http.dependencies import Caller, Service
from service.http.middleware import NOT_DONE, failed
from service.inference.segmentation import Passage
from service.problems import CLIENT_GONE, Problem, details

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": alive\n\n"

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer; or, where `Accept` asks for it, events: `prefix` (what the answer to the text "
        "`index` begins with), then `answer` (what is answered otherwise) or `error` (a problem)",
        "content": {
            MEDIA_TYPE: {
                "schema": {"type": "string"},
                "example": 'event: prefix\ndata: {"index": 0, "text": "A dog"}\n\n'
                'event: answer\ndata: {"translatedText": "A dog is running."}\n\n',
            }
        },
    }
}


class Stream:
    """What is written of the texts of one request; told by the engine, on the event loop."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.news = asyncio.Event()
        self._places: Sequence[int] = ()
        self._passages: Sequence[Passage] = ()
        self._owners: list[tuple[int, int]] = []  # of every sentence: its passage, and its place in that
        self._parts: list[list[str]] = []  # by passage and sentence
        self._done: list[list[bool]] = []
        self._shown: list[str] = []
        self._write: Callable[[str], str] = str

    def follow(self, places: Sequence[int], passages: Sequence[Passage], write: Callable[[str], str]) -> None:
        """These texts are about to be searched; their places in the request, and how their answers are written."""
        self._places, self._passages, self._write = places, passages, write
        self._owners = [(i, j) for i, passage in enumerate(passages) for j, _ in enumerate(passage.sentences)]
        self._parts = [[""] * len(passage.sentences) for passage in passages]
        self._done = [[False] * len(passage.sentences) for passage in passages]
        self._shown = [""] * len(passages)

    def accepted(self) -> None:
        self.began.set()

    def written(self, index: int, ids: list[int]) -> None:
        i, j = self._owners[index]
        passage = self._passages[i]
        if passage.whole.options.replace_unknown and UNKNOWN in ids:
            ids = ids[: ids.index(UNKNOWN)]  # what will stand there is not known yet
        text = passage.model.bundle.tokenizers["target"].decode(ids, raw="target" not in passage.whole.tokenised)
        self._parts[i][j] = text.rstrip("\ufffd")  # a character of which not all bytes are written
        self.news.set()

    def answered(self, index: int, answer: Answer) -> None:
        i, j = self._owners[index]
        self._parts[i][j], self._done[i][j] = answer.candidates[0].text, True
        self.news.set()

    def prefixes(self) -> list[tuple[int, str]]:
        """What has been written since the last call: the text's place in the request, and how its answer begins.

        A sentence is shown when those before it are written.
        """
        self.news.clear()
        changed = []
        for i, (place, passage) in enumerate(zip(self._places, self._passages, strict=True)):
            done = self._done[i]
            known = done.index(False) + 1 if False in done else len(done)
            text = passage.joined(self._parts[i][:known])
            if text.strip() and text != self._shown[i]:
                self._shown[i] = text
                changed.append((place, self._write(text)))
        return changed


class EventStream(Response):
    """Sends events as they come.

    Starlette's own would listen whether the caller has gone, and break off before the work could count that: here the
    work alone listens (`Caller.wait_for`), and the events end with it.
    """

    media_type = MEDIA_TYPE

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self.events = events
        self.status_code = 200
        self.background = None
        self.init_headers({"X-Accel-Buffering": "no"})  # which asks a proxy to pass each event on at once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self.events) as events:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def streamed(
    caller: Caller, service: Service, work: Callable[[Stream | None], Coroutine[Any, Any, Response]]
) -> Response:
    """The work's answer, whole, or as events where the caller accepts those. Raises Problem, before the first event."""
    if not wants_events(caller.request.headers.get("accept", "")):
        return await caller.wait_for(work(None))
    stream = Stream()
    working = asyncio.ensure_future(caller.wait_for(work(stream)))
    begins = asyncio.ensure_future(stream.began.wait())
    try:
        await asyncio.wait((working, begins), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        working.cancel()
        raise
    finally:
        begins.cancel()
    if working.done():
        working.result()  # raises what was wrong with the request
    return EventStream(events(caller, service, stream, working))


def wants_events(accept: str) -> bool:
    """Whether a client names the media type of events."""
    return any(part.partition(";")[0].strip().lower() == MEDIA_TYPE for part in accept.split(","))


async def events(
    caller: Caller, service: Service, stream: Stream, working: "asyncio.Task[Response]"
) -> AsyncGenerator[bytes, None]:
    """Events until the work is done; when nobody takes them any more, the work is given up."""
    try:
        while not working.done():
            news = asyncio.ensure_future(stream.news.wait())
            try:
                await asyncio.wait(
                    (working, news), timeout=service.settings.heartbeat_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                quiet = not news.done() and not working.done()
            finally:
                news.cancel()
            if quiet:
                yield HEARTBEAT
            for index, text in stream.prefixes():
                yield event("prefix", json.dumps({"index": index, "text": text}, ensure_ascii=False))
        try:
            yield event("answer", bytes(working.result().body).decode())
        except Problem as problem:
            if problem.status in NOT_DONE:
                service.gate.give_back(caller.request.scope["state"])
            if problem.status != CLIENT_GONE:
                yield event("error", details(problem, caller.request.state.request_id))
        except Exception as error:
            request_id = caller.request.state.request_id
            yield event("error", details(failed(error, request_id), request_id))
    finally:
        working.cancel()


def event(name: str, data: str) -> bytes:
    """One event; its data is JSON on one line. A lone surrogate is written as JSON escapes it."""
    escaped = data.encode("utf-8", "backslashreplace")
    return b"event: " + name.encode() + b"\ndata: " + escaped + b"\n\n"
