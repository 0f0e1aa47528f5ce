"""Settings of the service: models, limits, authentication, HTTP and logging."""

import ipaddress
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from interlinear.config import CompileChoice, Precision
from interlinear.images.decode import MAX_BYTES, MAX_PIXELS

MIB = 2**20
DEFAULT_STORE = "keys.db"  # of keys and suggestions, in the working directory
ORIGIN_PATTERN = re.compile(r"\*|https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")


class ServedModelConfig(BaseModel):
    """A model to serve: its name, and its URI (a bundle folder, `models:/...` or `runs:/...`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    uri: str
    slots: int | None = Field(
        None, ge=1, le=1024, description="texts that it searches at the same time; default: the service's"
    )
    beam: int | None = Field(None, ge=1, le=64, description="its widest beam; default: the service's")
    shortlist: bool | None = Field(None, description="whether its shortlist is used; default: the service's")
    reverse: str | None = Field(
        None, description="URI of a model of the opposite direction, for explanations with the links of both"
    )


class Settings(BaseSettings):
    """Each setting can also come from an environment variable: `INTERLINEAR_SERVE_QUEUE_TEXTS=1000`."""

    model_config = SettingsConfigDict(env_prefix="INTERLINEAR_SERVE_", frozen=True, extra="forbid")

    models: tuple[ServedModelConfig, ...] = ()
    tracking: str | None = Field(None, description="MLflow's address, for models by registered name")
    cache: Path | None = Field(
        None, description="where fetched bundles are kept; default: under the user's cache folder"
    )
    cache_bytes: int = Field(
        10 * 2**30,
        ge=2**20,
        description="size limit of the cache in bytes; the least recently used bundles are removed",
    )
    refuse_other_languages: bool = Field(
        False,
        description="with source `auto`, refuse a text that is likeliest in a language that is not translated into the "
        "target, instead of reading it as the likeliest that is",
    )
    poll_seconds: float = Field(10, gt=0, description="seconds between two checks of the aliases")
    device: str = Field(
        "cpu", description="devices to search on: `cpu`, or several separated by commas, with a process for each"
    )
    precision: Precision = Field(
        "fp32",
        description="number format of computations; `bf16` is faster if the processor supports it, `int8` on most "
        "CPUs; `auto` chooses",
    )
    compile: CompileChoice = Field(
        "auto",
        description="whether the steps of a search are compiled when a model is loaded; `auto`: on a GPU",
    )
    shortlist: bool = Field(
        False, description="search only among the words of every model's shortlist, which must have one"
    )
    threads: int | None = Field(None, ge=1, description="threads of torch; default: torch's own choice")
    warm_up_texts: int = Field(
        32,
        ge=1,
        le=1024,
        description="before a model is ready on a CPU, each number of texts up to this one takes a step; with 1 the "
        "service starts sooner, and the first batch of each size is slower",
    )

    hang_seconds: float = Field(
        30,
        ge=1,
        description="silence after which a search counts as hung: a process is killed, a thread not live",
    )
    load_seconds: float = Field(600, ge=1, description="the same while it starts, or loads and warms up a model")

    pivot: bool = Field(
        True, description="whether texts are translated through a pivot language where no model translates directly"
    )
    slots: int = Field(32, ge=1, le=1024, description="texts that one model searches at the same time")
    beam: int = Field(5, ge=1, le=64, description="largest beam that a request may ask for")

    body_bytes: int = Field(MIB, ge=1024, description="longest request body, without a picture")
    image_bytes: int = Field(MAX_BYTES, ge=1024, description="longest picture")
    image_pixels: int = Field(MAX_PIXELS, ge=1024, description="largest picture, width x height")
    body_room: int = Field(64 * MIB, ge=1024, description="bytes of request bodies held in memory; beyond it 429")
    image_threads: int = Field(2, ge=1, le=64, description="pictures decoded at the same time")
    texts: int = Field(100, ge=1, description="most texts in one request")
    characters: int = Field(5000, ge=1, description="longest text")
    sentences: int = Field(1000, ge=1, description="most sentences in one request")
    terms: int = Field(1000, ge=1, description="most entries of a request's glossary, and texts not to translate")
    term_characters: int = Field(200, ge=1, description="longest source or target of such a term")
    glossary_entries: int = Field(10_000, ge=1, description="most entries of a glossary that is kept")
    glossaries_per_key: int = Field(100, ge=1, description="most glossaries kept of one key, or of callers without one")
    explained: int = Field(30, ge=1, description="most sentences of a text with an explanation")
    queue_texts: int = Field(512, ge=1, description="texts that may wait; beyond it a request is rejected with 429")
    queue_tokens: int = Field(200_000, ge=1, description="tokens x beam that may wait")
    fair: bool = Field(
        True, description="whether callers share slots and queue fairly; otherwise first come, first served"
    )
    prepare_threads: int = Field(2, ge=1, le=64, description="threads that detect languages, split and encode texts")
    seconds: float = Field(60, gt=0, description="time limit of one request, including its wait")
    heartbeat_seconds: float = Field(10, gt=0, description="seconds between two heartbeats in a streamed answer")
    grace_seconds: float = Field(30, ge=0, description="time to finish accepted requests when the service is stopped")

    keys: str | None = Field(
        None, description="the file of `interlinear keys`, or postgresql://...; default if keys are required: keys.db"
    )
    require_key: bool = Field(False, description="whether requests for work need a key")
    metrics_key: bool = Field(False, description="whether `/metrics` needs a key")
    suggestions: bool = Field(False, description="whether `/suggest` keeps corrected translations, beside the keys")
    suggestions_per_key: int = Field(
        1000, ge=1, description="most suggestions kept of one key, or of all callers without one"
    )
    suggestions_kept: int = Field(10_000, ge=1, description="most suggestions kept altogether")
    files: bool = Field(True, description="whether documents are translated: `/translate_file`")
    files_folder: Path | None = Field(
        None, description="where the folder of documents is made; default: the system's temporary folder"
    )
    file_bytes: int = Field(10_000_000, ge=1, description="largest document")
    file_characters: int = Field(500_000, ge=1, description="most characters of a document's texts")
    file_sentences: int = Field(100_000, ge=1, description="most sentences of a document's texts")
    file_jobs: int = Field(2, ge=1, le=64, description="documents translated at the same time")
    file_seconds: float = Field(3600, gt=0, description="time after which a translated document is deleted")
    file_work_seconds: float = Field(1800, gt=0, description="time limit of the translation of a document")
    file_parse_seconds: float = Field(60, gt=0, description="time limit of reading a document, and of writing it")
    file_megabytes: int = Field(1000, ge=100, description="memory limit of reading a document, and of writing it")
    files_kept: int = Field(100, ge=1, description="most documents kept, those that wait included")
    files_per_caller: int = Field(10, ge=1, description="most documents kept of one key, or of an address without one")
    files_total_bytes: int = Field(2**30, ge=1, description="bytes of documents kept on disk; beyond it 429")
    rate: float | None = Field(
        None, gt=0, le=1e6, description="texts a second for each key, or for each address without one"
    )
    burst: int | None = Field(None, ge=1, description="texts at once; default: those of one second, at least one")
    trusted_proxies: tuple[str, ...] = Field((), description="addresses or networks whose X-Forwarded-For is trusted")
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+(/[^?#\s]*)?$",
        description="the service's address for clients, in URLs of documents; default: the one that they have called",
    )
    origins: tuple[str, ...] = Field((), description="origins that may send requests from a browser (CORS), or `*`")

    header_bytes: int = Field(16 * 1024, ge=1024, description="longest request line and headers together")
    header_fields: int = Field(100, ge=16, description="most headers of a request")
    header_seconds: float = Field(10, gt=0, description="time for a request's headers to arrive")
    body_seconds: float = Field(30, gt=0, description="time for a request's body to arrive")
    connections: int = Field(1000, ge=1, description="most connections; further ones get 503, but for probes")

    log_format: Literal["text", "json"] = "text"
    access_log: bool | None = Field(None, description="whether to log every request; default: only in JSON logs")

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices to search on: `cuda:0,1` means cuda:0 and cuda:1."""
        named: list[str] = []
        for part in map(str.strip, self.device.split(",")):
            named.append(f"{named[-1].partition(':')[0]}:{part}" if part.isdigit() and named else part)
        return tuple(named)

    @property
    def uses_processes(self) -> bool:
        """Whether worker processes search, one for each device; on one CPU a thread of the service searches."""
        return self.devices != ("cpu",)

    @property
    def key_store(self) -> str | None:
        """Location of the keys, if keys are used at all: a file's path, or a database's URL."""
        return self.keys or (DEFAULT_STORE if self.require_key or self.metrics_key else None)

    @property
    def suggestion_store(self) -> str | None:
        """Location of the suggestions, if they are accepted: the keys' location, whether or not keys are used."""
        return (self.keys or DEFAULT_STORE) if self.suggestions else None

    @field_validator("keys", mode="before")
    @classmethod
    def _path_to_text(cls, keys: object) -> object:
        return str(keys) if isinstance(keys, Path) else keys

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ValueError(f"must be an IP address or network, not {proxy!r}") from None
        return proxies

    @field_validator("origins")
    @classmethod
    def _check_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not ORIGIN_PATTERN.fullmatch(origin):
                raise ValueError(f"must be like https://example.org, without a path, not {origin!r}")
        return origins

    @model_validator(mode="after")
    def _check_beams(self) -> Self:
        for model in self.models:
            if model.beam and model.beam > self.beam:
                raise ValueError(f"{model.uri}: a beam of {model.beam} is wider than the service's own, {self.beam}")
        return self
