"""`POST /suggest`: keeps a caller's correction of a translation, compatible with LibreTranslate."""

import asyncio
import logging
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field, create_model

from interlinear.errors import StoreError
from service.http.dependencies import Caller, CallerDep, Service, ServiceDep
from service.http.openapi import body_documentation
from service.http.parsing import parsed_body
from service.http.requests import ApiRequest, LanguageCode, check_stored_text
from service.http.responses import SuggestResponse
from service.problems import Problem, problem_responses
from service.settings import Settings
from service.store.suggestion_store import Suggestion, SuggestionsFullError, SuggestionStore

log = logging.getLogger("interlinear.service")


class SuggestRequest(ApiRequest):
    """A text and a better translation of it."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "Ein Hund läuft.",
        "s": "A dog is running.",
        "source": "de",
        "target": "en",
    }

    q: str
    s: str
    source: LanguageCode = Field(description="the language of `q`, or `auto`")
    target: LanguageCode = Field(description="the language of `s`")


def router(settings: Settings) -> APIRouter:
    """The route, with the limits of the settings."""
    routes = APIRouter(tags=["translation"])
    kind = suggest_request_with_limits(settings)

    # The store is the first dependency, so that a service without suggestions says so whatever the body is.
    @routes.post(
        "/suggest",
        response_model=SuggestResponse,
        responses=problem_responses(503, 504),
        openapi_extra=body_documentation(kind),
    )
    async def suggest(
        store: Annotated[SuggestionStore, Depends(suggestion_store)],
        caller: CallerDep,
        service: ServiceDep,
        request: Annotated[SuggestRequest, Depends(parsed_body(kind))],
    ) -> SuggestResponse:
        """Suggest a better translation. It is kept for the service's operator, and changes no translation now."""
        return await caller.wait_for(keep_suggestion(store, caller, service, request))

    return routes


async def suggestion_store(service: ServiceDep) -> SuggestionStore:
    """The store of a service that accepts suggestions. Raises Problem 403."""
    if service.suggestions is None:
        raise Problem(403, "Suggestions are disabled on this server.")
    return service.suggestions


async def keep_suggestion(
    store: SuggestionStore, caller: Caller, service: Service, request: SuggestRequest
) -> SuggestResponse:
    """Store a suggestion between two languages that are translated; the same one twice is kept once. Raises Problem."""
    source = request.source
    possible = service.models.source_languages("translation", request.target, None)
    if source == "auto":
        (guesses,) = await service.engine.preparation.map(caller.name, service.detector.guesses, [request.q], len)
        source = next(guess.language for guess in guesses if guess.language in possible)
    source, target = service.models.translation_path(source, request.target, None).language_pair
    key = caller.request.state.key
    suggestion = Suggestion(request.q, request.s, source, target, key.name if key else "")
    settings = service.settings
    try:
        await asyncio.to_thread(store.add, suggestion, settings.suggestions_per_key, settings.suggestions_kept)
    except SuggestionsFullError as full:
        whose = "of one key, or of all callers without one" if full.of_key else "altogether"
        raise Problem(403, f"no more suggestions are accepted: {full.limit:,} {whose} are kept already") from None
    except StoreError as error:
        log.error("A suggestion was not kept: %s", error)
        raise Problem.unavailable("the suggestion cannot be kept now; the service's log says why") from None
    return SuggestResponse()


def suggest_request_with_limits(settings: Settings) -> type[SuggestRequest]:
    """`SuggestRequest` with the limits of the service's settings."""
    text: Any = Annotated[str, Field(min_length=1, max_length=settings.characters), AfterValidator(check_stored_text)]
    return create_model(
        "SuggestRequest",
        __base__=SuggestRequest,
        __doc__=SuggestRequest.__doc__,
        q=(text, Field(description="a text")),
        s=(text, Field(description="its suggested translation")),
    )
