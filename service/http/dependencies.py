"""What a route is given: the service's parts, and its caller, who has a deadline and may go away."""

import asyncio
import math
from collections.abc import Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from service.auth.auth import Auth
from service.engine.engine import Engine
from service.inference.detection import LanguageDetector
from service.inference.images import ImageDecoder
from service.metrics import Metrics
from service.model_manager import ModelManager
from service.models import ServedModels
from service.problems import CLIENT_CLOSED_REQUEST, Problem, excerpt
from service.settings import Settings

T = TypeVar("T")

TIMEOUT_HEADER = "X-Request-Timeout"


@dataclass(frozen=True)
class Service:
    """The parts of a running service."""

    settings: Settings
    model_manager: ModelManager
    engine: Engine
    detector: LanguageDetector
    image_decoder: ImageDecoder
    parse_executor: Executor
    metrics: Metrics
    auth: Auth

    @property
    def models(self) -> ServedModels:
        """Those that are served now."""
        return self.model_manager.models


async def _get_service(request: Request) -> Service:  # not in a thread, as FastAPI runs what is not async
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_get_service)]


@dataclass(frozen=True)
class Caller:
    """Who asked: until when the answer is wanted, and whether anybody is still there."""

    request: Request
    seconds: float
    deadline: float  # on the event loop's clock
    metrics: Metrics

    @property
    def name(self) -> str:
        """Whose share of the slots and of the queue it is: a key's, else an address's."""
        name: str = self.request.state.caller
        return name

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result; it is cancelled at the deadline (Problem 504) or when the caller has gone."""
        working, disconnected = asyncio.ensure_future(work), asyncio.ensure_future(self._disconnected())
        try:
            async with asyncio.timeout_at(self.deadline):
                await asyncio.wait((working, disconnected), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.metrics.rejected.labels("gone").inc()
                raise Problem(CLIENT_CLOSED_REQUEST, "the caller has gone")
            return working.result()
        except TimeoutError:
            self.metrics.rejected.labels("deadline").inc()
            raise Problem(504, f"there was no answer within {self.seconds:g} s") from None
        finally:
            working.cancel()
            disconnected.cancel()

    async def _disconnected(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


async def _get_caller(request: Request, service: ServiceDep) -> Caller:
    seconds = service.settings.seconds
    if (header := request.headers.get(TIMEOUT_HEADER)) is not None:
        try:
            requested = float(header)
        except ValueError:
            requested = math.nan
        if not 0 < requested < math.inf:
            raise Problem.in_field(TIMEOUT_HEADER, f"must be seconds, more than 0, not {excerpt(header)!r}")
        seconds = min(seconds, requested)
    return Caller(request, seconds, asyncio.get_running_loop().time() + seconds, service.metrics)


CallerDep = Annotated[Caller, Depends(_get_caller)]

TIMEOUT_PARAMETER = {
    "name": TIMEOUT_HEADER,
    "in": "header",
    "description": "Seconds after which the answer is no longer wanted (504); at most the service's own limit.",
    "schema": {"type": "number", "exclusiveMinimum": 0},
}
