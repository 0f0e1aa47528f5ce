"""`GET /languages`, `POST /detect` and `GET /frontend/settings`, compatible with LibreTranslate."""

from typing import Annotated

from fastapi import APIRouter, Depends

from interlinear.components import DOCUMENT_FORMATS
from interlinear.translation import language_tags as languages
from service.http.dependencies import CallerDep, ServiceDep
from service.http.openapi import body_documentation
from service.http.parsing import parsed_body
from service.http.requests import DetectRequest, detect_request_with_limits
from service.http.responses import Detection, FrontendSettings, Language, LanguagePair, NamedLanguage
from service.problems import problem_responses
from service.settings import Settings

TYPING_MILLISECONDS = 500  # pause in typing after which a page translates


def router(settings: Settings) -> APIRouter:
    """The routes, with the limits of the settings."""
    routes = APIRouter(tags=["languages"])
    kind = detect_request_with_limits(settings)
    formats = list(DOCUMENT_FORMATS)  # which are imported now

    @routes.get("/languages", response_model=list[Language])
    async def list_languages(service: ServiceDep) -> list[Language]:
        """The languages served, and the target languages of each."""
        served = service.models.languages()
        return [Language(code=c, name=languages.language_name(c), targets=targets) for c, targets in served.items()]

    @routes.post(
        "/detect",
        response_model=list[Detection],
        response_model_exclude_none=True,
        responses=problem_responses(503, 504),
        openapi_extra=body_documentation(kind),
    )
    async def detect(
        caller: CallerDep, service: ServiceDep, request: Annotated[DetectRequest, Depends(parsed_body(kind))]
    ) -> list[Detection]:
        """The served languages that a text may be in, the most probable first."""
        preparation = service.engine.preparation
        (guesses,) = await caller.wait_for(preparation.map(caller.name, service.detector.guesses, [request.q], len))
        return [Detection.of(guess) for guess in guesses]

    @routes.get("/frontend/settings", response_model=FrontendSettings, response_model_exclude_none=True)
    async def frontend_settings(service: ServiceDep) -> FrontendSettings:
        """Settings that a page needs before it translates."""
        language = None
        if models := service.models.for_task("translation"):
            source, target = (
                NamedLanguage(code=code, name=languages.language_name(code)) for code in models[0].language_pair
            )
            language = LanguagePair(source=source, target=target)
        return FrontendSettings(
            apiKeys=service.auth.keys is not None,
            keyRequired=service.settings.require_key,
            suggestions=service.suggestions is not None,
            charLimit=service.settings.characters,
            frontendTimeout=TYPING_MILLISECONDS,
            language=language,
            filesTranslation=service.files is not None,
            supportedFilesFormat=formats if service.files else [],
        )

    return routes
