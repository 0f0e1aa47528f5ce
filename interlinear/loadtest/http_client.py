"""HTTP client of the load test: lists a service's models and builds request bodies."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

import aiohttp
from pydantic import BaseModel, TypeAdapter, ValidationError

from interlinear.loadtest.load_generator import connection_error, error_detail
from interlinear.loadtest.sample_texts import ENGLISH, TEXTS_BY_LANGUAGE
from seq2seq.errors import ServiceError, UsageError

Route = Literal["/translate", "/summarize", "/translate/multimodal", "/post-edit"]
TASKS: dict[str, Route] = {
    "translation": "/translate",
    "summarization": "/summarize",
    "multimodal": "/translate/multimodal",
    "post-edit": "/post-edit",
}
ANSWERS: dict[Route, str] = {
    "/translate": "translatedText",
    "/summarize": "summaries",
    "/translate/multimodal": "translatedText",
    "/post-edit": "editedText",
}
LIST_TIMEOUT = 10.0  # seconds to wait for the list of models
AUTO = "auto"


class RemoteModel(BaseModel):
    """A model as `GET /models` describes it."""

    name: str
    version: str
    aliases: tuple[str, ...]
    task: str
    languages: dict[str, str]

    def __str__(self) -> str:
        return f"{self.name}@{self.version} ({self.task}, {' to '.join(self.languages.values())})"

    def matches(self, reference: str) -> bool:
        name, _, which = reference.partition("@")
        return name == self.name and (not which or which in (self.version, *self.aliases))


@dataclass(frozen=True)
class RequestSpec:
    """The requested route, model and languages; the service's first fitting model fills in what is absent.

    `pictures` (file contents) are combined with texts cyclically, `translations` with texts line by line.
    """

    route: Route | None = None
    model: str | None = None
    source: str | None = None
    target: str | None = None
    pictures: tuple[bytes, ...] = ()
    translations: tuple[str, ...] = ()

    @property
    def routes(self) -> tuple[Route, ...]:
        """The routes that accept these inputs."""
        if self.route:
            return (self.route,)
        if self.translations:
            return ("/post-edit",)
        return ("/translate/multimodal",) if self.pictures else ("/translate", "/summarize")

    def choose(self, models: Sequence[RemoteModel]) -> RemoteModel:
        """The first model that fits. Raises UsageError."""
        for model in models:
            languages = model.languages
            if (
                TASKS.get(model.task) in self.routes
                and (self.model is None or model.matches(self.model))
                and self.source in (None, AUTO, languages.get("source"))
                and self.target in (None, languages.get("target"))
            ):
                return model
        names = {"model": self.model, "source": self.source, "target": self.target}
        constraints = [f"{name} {value}" for name, value in names.items() if value is not None]
        raise UsageError(
            " and ".join([" or ".join(self.routes), *constraints]),
            "no model that is served fits",
            f"it serves {'; '.join(map(str, models)) or 'none'}",
        )

    def request_bodies(self, model: RemoteModel, texts: Sequence[str]) -> list[bytes]:
        """Request bodies that use every text and every picture. Raises UsageError if texts and translations differ in
        number."""
        if TASKS[model.task] == "/post-edit":
            if texts and len(texts) != len(self.translations):
                raise UsageError(
                    "--mt", f"it has {len(self.translations)} lines, and --texts {len(texts)}", "give a line for each"
                )
            source_fields: Sequence[dict[str, str]] = [{"source_text": text} for text in texts] or [{}] * len(
                self.translations
            )
            pairs = zip(self.translations, source_fields, strict=True)
            return [self._body({"translation": translation} | source, model) for translation, source in pairs]
        if TASKS[model.task] == "/summarize":
            return [self._body({"text": text}) for text in texts]
        images = [{"image": base64.b64encode(picture).decode()} for picture in self.pictures] or [{}]
        count = max(len(texts), len(images))
        return [self._body({"q": texts[i % len(texts)]} | images[i % len(images)], model) for i in range(count)]

    def _body(self, fields: dict[str, str], translator: RemoteModel | None = None) -> bytes:
        """A body with these fields, the model, and the languages if it is for a model that has two."""
        if translator:
            languages = translator.languages
            fields = fields | {"source": self.source or languages["source"], "target": languages["target"]}
        return json.dumps(fields | ({"model": self.model} if self.model else {})).encode()


def check_url(url: str) -> str:
    """The URL without a trailing slash. Raises UsageError."""
    try:
        parts = urlsplit(url)
        port = parts.port != 0
    except ValueError:
        port = False
    if not port or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError(
            url, "is not the address of a service", "say http://HOST:PORT, as `interlinear serve` prints it"
        )
    return url.rstrip("/")


def headers(api_key: str | None) -> dict[str, str]:
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})


async def list_models(url: str, api_key: str | None) -> list[RemoteModel]:
    """The models of a service. Raises ServiceError if it does not answer, refuses access, or is not an Interlinear
    service."""
    not_interlinear = ServiceError(
        url, "what answers there is not an Interlinear service", "see the address and the port"
    )
    try:
        timeout = aiohttp.ClientTimeout(total=LIST_TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers(api_key)) as session,
            session.get(f"{url}/models", allow_redirects=False) as answer,
        ):
            content = await answer.read()
    except TimeoutError:
        raise ServiceError(url, f"it did not answer within {LIST_TIMEOUT:g} s", "see whether it is well") from None
    except aiohttp.InvalidURL:
        raise UsageError(url, "is not the address of a service", "say http://HOST:PORT") from None
    except aiohttp.ClientConnectionError as error:
        raise ServiceError(
            url, f"the service cannot be reached ({connection_error(error)})", "start it by `interlinear serve`"
        ) from None
    except aiohttp.ClientError:
        raise not_interlinear from None
    if answer.status in (401, 403):
        raise ServiceError(
            url, f"it does not let us in ({error_detail(content) or answer.status})", "give a key by --api-key"
        )
    if answer.status in (429, 503):
        raise ServiceError(url, error_detail(content) or f"it answered {answer.status}", "come again when it is ready")
    try:
        if answer.status != 200:
            raise not_interlinear
        return TypeAdapter(list[RemoteModel]).validate_json(content)
    except ValidationError:
        raise not_interlinear from None


async def sample_requests(url: str, api_key: str | None, spec: RequestSpec, model: RemoteModel) -> list[bytes]:
    """Request bodies with the built-in sentences in the model's source language, or else in English.

    Each is sent once and left out if the model refuses it; small models do not accept long sentences. Raises
    ServiceError if none is accepted.
    """
    language = model.languages.get("source") if spec.source in (None, AUTO) else spec.source
    bodies = spec.request_bodies(model, TEXTS_BY_LANGUAGE.get(language or "", ENGLISH))
    accepted, refusal = [], ""
    async with aiohttp.ClientSession(headers=headers(api_key)) as session:
        for body in bodies:
            try:
                async with session.post(url, data=body, allow_redirects=False) as answer:
                    if answer.status == 400:
                        refusal = error_detail(await answer.read())
                    else:
                        accepted.append(body)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise ServiceError(
                    url, f"it gave no answer ({connection_error(error)})", "see whether it is well"
                ) from None
    if not accepted:
        raise ServiceError(url, f"it reads none of the built-in sentences ({refusal})", "give your own by --texts")
    return accepted
