"""Simple HTTP handlers around a bundle: the baselines that our service is compared with.

    python -m benchmarks.serving.handlers --model BUNDLE --port N [--threads N] [--slots N] [--wait-ms N]

A text waits up to --wait-ms for others, up to --slots are searched together, and all are answered when the last one is
finished, as a batching decorator does it. With one slot each is searched alone, as behind a lock.
"""

import argparse
import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path

import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

import interlinear
from interlinear.errors import RequestError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.memory_allocator import keep_freed_memory


class Body(BaseModel):
    """The fields of a /translate request that the handlers use."""

    q: str
    source: str
    target: str


class Searcher:
    """Searches batches with the offline search, and counts the source positions of its steps."""

    def __init__(self, bundle: Path, slots: int) -> None:
        self.bundle = interlinear.load(bundle)
        self.generation = SequenceGenerator(self.bundle, slots=slots, width=self.bundle.card.search.beam)
        self.source = next(iter(self.bundle.card.model.sources))
        self.read = self.room = 0

    def search(self, texts: list[str]) -> list[str]:
        """The best output of every text, after all have finished."""
        requests = [Request({self.source: text}, self.bundle.card.search) for text in texts]
        generation, found = self.generation, {}
        generation.admit([(i, generation.encode(request)) for i, request in enumerate(requests)])
        while generation.active:
            read, room = generation.positions
            self.read, self.room = self.read + read, self.room + room
            found.update(generation.step())
        return [best(found[i]) for i in range(len(texts))]


def best(answer: GenerationResult | RequestError) -> str:
    assert isinstance(answer, GenerationResult)
    return answer.candidates[0].text


Translate = Callable[[str], Awaitable[str]]


def collected(searcher: Searcher, slots: int, wait: float) -> Translate:
    """Texts that arrive within `wait` seconds of the first one, up to `slots`, are searched together."""
    waiting: queue.SimpleQueue[tuple[str, Future[str]]] = queue.SimpleQueue()

    def run() -> None:
        while True:
            batch = [waiting.get()]
            until = time.perf_counter() + wait
            while len(batch) < slots:
                try:
                    batch.append(waiting.get(timeout=max(0.0, until - time.perf_counter())))
                except queue.Empty:
                    break
            for (_, future), text in zip(batch, searcher.search([text for text, _ in batch]), strict=True):
                future.set_result(text)

    async def translate(text: str) -> str:
        future: Future[str] = Future()
        waiting.put((text, future))
        return await asyncio.wrap_future(future)

    threading.Thread(target=run, daemon=True).start()
    return translate


def create_app(searcher: Searcher, translate: Translate) -> FastAPI:
    app = FastAPI()

    @app.post("/translate")
    async def answer(body: Body) -> dict[str, str | dict[str, str]]:
        return {"translatedText": await translate(body.q), "model": {"name": "mt", "version": "1"}}

    @app.get("/ready")
    async def ready() -> bool:
        return True

    @app.get("/positions")
    async def positions() -> tuple[int, int]:
        return searcher.read, searcher.room

    return app


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--wait-ms", type=float, default=10.0)
    return parser


def main() -> None:
    asked = arguments().parse_args()
    keep_freed_memory()  # as our service does
    torch.set_num_threads(asked.threads)
    searcher = Searcher(asked.model, asked.slots)
    searcher.search(["1"])  # loads everything before the first request
    app = create_app(searcher, collected(searcher, asked.slots, asked.wait_ms / 1000))
    uvicorn.run(app, host="127.0.0.1", port=asked.port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
