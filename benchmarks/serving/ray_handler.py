"""A bundle behind Ray Serve's batching decorator.

python -m benchmarks.serving.ray_handler --model BUNDLE --port N [--threads N] [--slots N] [--wait-ms N]
"""

import signal
import threading
from pathlib import Path

import ray
import torch
from ray import serve
from starlette.requests import Request

from benchmarks.serving.handlers import Searcher, arguments


@serve.deployment
class Translator:
    """One replica, which searches the texts of a collected batch."""

    def __init__(self, bundle: str, slots: int, threads: int, wait: float) -> None:
        torch.set_num_threads(threads)
        self.searcher = Searcher(Path(bundle), slots)
        self.searcher.search(["1"])
        self.translate.set_max_batch_size(slots)
        self.translate.set_batch_wait_timeout_s(wait)

    @serve.batch
    async def translate(self, texts: list[str]) -> list[str]:
        return self.searcher.search(texts)

    async def __call__(self, request: Request) -> dict[str, str | dict[str, str]]:
        if request.url.path == "/ready":
            return {}
        text = (await request.json())["q"]
        return {"translatedText": await self.translate(text), "model": {"name": "mt", "version": "1"}}


def main() -> None:
    asked = arguments().parse_args()
    ray.init("local", include_dashboard=False, logging_level="WARNING", log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": asked.port})
    bound = Translator.options(
        max_ongoing_requests=4 * asked.slots, ray_actor_options={"num_cpus": 1}
    ).bind(str(asked.model.resolve()), asked.slots, asked.threads, asked.wait_ms / 1000)  # fmt: skip
    serve.run(bound)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    over.wait()
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
