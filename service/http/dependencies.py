"""FastAPI dependencies of the routes: the service's components, and the caller with its deadline and disconnection."""

import asyncio
import math
from collections.abc import Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from interlinear.translation.detection import LanguageDetector
from service.auth.auth import Auth
from service.engine.engine import Engine
from service.files.job_queue import FileJobs
from service.inference.images import ImageDecoder
from service.metrics import Metrics
from service.model_manager import ModelManager
from service.models import ServedModels
from service.problems import CLIENT_CLOSED_REQUEST, Problem, excerpt
from service.settings import Settings
from service.store.glossary_store import GlossaryStore
from service.store.suggestion_store import SuggestionStore

T = TypeVar("T")

TIMEOUT_HEADER = "X-Request-Timeout"


@dataclass(frozen=True)
class Service:
    """The components of a running service."""

    settings: Settings
    model_manager: ModelManager
    engine: Engine
    detector: LanguageDetector
    image_decoder: ImageDecoder
    parse_executor: Executor
    metrics: Metrics
    auth: Auth
    suggestions: SuggestionStore | None = None  # None: not accepted
    glossaries: GlossaryStore | None = None  # None: not kept
    files: FileJobs | None = None  # None: documents are not translated

    @property
    def models(self) -> ServedModels:
        """The models served now."""
        return self.model_manager.models


async def _get_service(request: Request) -> Service:  # async, because FastAPI runs other functions in a thread
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_get_service)]


@dataclass(frozen=True)
class Caller:
    """The client of a request, with its deadline."""

    request: Request
    seconds: float
    deadline: float  # time on the event loop's clock
    metrics: Metrics

    @property
    def name(self) -> str:
        """The name of the caller in fair queueing and quotas: the API key's, or else an address's."""
        name: str = self.request.state.caller
        return name

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result. The work is cancelled at the deadline (Problem 504) and when the client disconnects."""
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
    return caller_within(request, service, service.settings.seconds)


def caller_within(request: Request, service: Service, seconds: float) -> Caller:
    """The caller of a request that may take these seconds, or fewer if its header says so. Raises Problem."""
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
