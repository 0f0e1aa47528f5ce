"""Builds the service's ASGI app from models, engine, routes and middleware."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from interlinear.installation import DISTRIBUTION
from interlinear.text.sentences import split_sentences
from interlinear.translation.detection import LanguageDetector
from service import problems
from service.auth.auth import Auth
from service.engine.engine import Engine
from service.files.job_queue import FileJobs
from service.files.translation import FileTranslator
from service.http.dependencies import TIMEOUT_HEADER, Service
from service.http.middleware import BodyLimitMiddleware, RequestMiddleware
from service.http.openapi import install_openapi, operation_id
from service.http.routes import (
    files,
    glossaries,
    languages,
    multimodal,
    operations,
    pages,
    post_editing,
    suggestions,
    summarization,
    translation,
)
from service.inference.images import BASE64_OVERHEAD, ImageDecoder
from service.metrics import Metrics
from service.model_manager import ModelManager, load_model_slots, open_cache
from service.settings import Settings
from service.store.glossary_store import GlossaryStore
from service.store.suggestion_store import SuggestionStore

PARSE_THREADS = 2  # long bodies parsed at the same time

API_DESCRIPTION = """Translations, with or without a picture, edited translations and headlines, with attention weights.

`/translate`, `/translate_file`, `/detect`, `/languages`, `/suggest` and `/frontend/settings` are those of
LibreTranslate, whose clients work unchanged.
POST routes take JSON, URL-encoded and multipart forms; a picture is a file in a form, or base64. A document is a file
in a multipart form.
Errors are problem details (RFC 9457).
If the service requires a key, send it in `api_key` or `Authorization: Bearer`.
Invalid HTTP is answered before routing: 400, 408, 431, and 503 for too many connections.
"""


def create_app(settings: Settings) -> FastAPI:
    """Load the models and build the app; its lifespan runs the engine.

    Raises InterlinearError if a model cannot be loaded, or a store cannot be used. Nothing is left running then.
    """
    metrics = Metrics()
    with ExitStack() as started:
        auth = Auth(settings, metrics)
        started.callback(auth.stop)
        suggestion_store = SuggestionStore(settings.suggestion_store) if settings.suggestion_store else None
        if suggestion_store:
            started.callback(suggestion_store.close)
            suggestion_store.create()
        glossary_store = GlossaryStore(settings.key_store) if settings.key_store else None
        cache = open_cache(settings, metrics)
        model_slots = load_model_slots(settings, cache)
        engine = Engine([model_slot.served for model_slot in model_slots], settings, metrics)
        started.callback(engine.stop, 0)
        for model_slot in model_slots:
            # Load the sentence splitter now, so that the first request of a language does not wait.
            split_sentences("One. Two.", model_slot.served.facts.languages.get(model_slot.served.source))
        model_manager = ModelManager(model_slots, engine, settings, metrics, cache)
        metrics.ready.set_function(lambda: engine.ready)
        detector = LanguageDetector(model_manager.models.all_languages())
        image_decoder = ImageDecoder(settings, metrics)
        translator = None
        if settings.files:
            translator = FileTranslator(engine, lambda: model_manager.models, detector, settings)
        file_jobs = FileJobs(settings, metrics, translator.translate) if translator else None
        started.pop_all()  # from here on, the lifespan ends them
    parse_executor = ThreadPoolExecutor(PARSE_THREADS, "parsing")
    service = Service(
        settings,
        model_manager,
        engine,
        detector,
        image_decoder,
        parse_executor,
        metrics,
        auth,
        suggestion_store,
        glossary_store,
        file_jobs,
    )
    body_bytes_with_image = settings.body_bytes + int(BASE64_OVERHEAD * settings.image_bytes)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if file_jobs:
            await asyncio.to_thread(file_jobs.start)
        auth.start()
        engine.start()
        model_manager.start()
        try:
            yield
        finally:
            if file_jobs and translator:
                await file_jobs.stop()
                translator.close()
            await asyncio.to_thread(model_manager.stop)
            await asyncio.to_thread(engine.stop, settings.grace_seconds)
            image_decoder.close()
            parse_executor.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(auth.stop)
            for store in (suggestion_store, glossary_store):
                if store:
                    await asyncio.to_thread(store.close)

    app = FastAPI(
        title="Interlinear",
        description=API_DESCRIPTION,
        version=version(DISTRIBUTION),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        license_info={"name": "MIT", "identifier": "MIT"},
        generate_unique_id_function=operation_id,
    )
    app.state.service = service
    app.add_middleware(
        BodyLimitMiddleware,
        limit=settings.body_bytes,
        larger_limits={
            multimodal.MULTIMODAL_PATH: body_bytes_with_image,
            files.TRANSLATE_FILE_PATH: settings.body_bytes + settings.file_bytes,
        },
        budget_bytes=settings.body_room,
        seconds=settings.body_seconds,
        key_required=settings.require_key,
        metrics=metrics,
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", TIMEOUT_HEADER, "X-Request-ID", "Prefer"],
            expose_headers=[
                "X-Request-ID",
                "Retry-After",
                "RateLimit",
                "RateLimit-Policy",
                "Location",
                "Content-Disposition",
            ],
        )
    # The middleware added last is the outermost.
    app.add_middleware(RequestMiddleware, settings=settings, metrics=metrics, auth=auth)
    problems.install_handlers(app)
    app.include_router(translation.router(settings))
    app.include_router(multimodal.router(settings))
    app.include_router(post_editing.router(settings))
    app.include_router(summarization.router(settings))
    app.include_router(languages.router(settings))
    app.include_router(suggestions.router(settings))
    app.include_router(glossaries.router(settings))
    app.include_router(files.router(settings))
    app.include_router(operations.routes)
    app.include_router(pages.routes)

    install_openapi(app)
    return app
