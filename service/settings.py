"""What a service is told when it starts: which models, how much it takes on, and from whom."""

import ipaddress
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from seq2seq.config import Precision
from seq2seq.images.decode import MAX_BYTES, MAX_PIXELS

MIB = 2**20
ORIGIN_PATTERN = re.compile(r"\*|https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")


class ServedModelConfig(BaseModel):
    """A model to serve: under which name, and where it is (a bundle folder, `models:/...` or `runs:/...`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    place: str
    slots: int | None = Field(
        None, ge=1, le=1024, description="texts that it searches at a time; default: the service's"
    )
    beam: int | None = Field(None, ge=1, le=64, description="its widest beam; default: the service's")


class Settings(BaseSettings):
    """Each also by its environment variable: `INTERLINEAR_SERVE_QUEUE_TEXTS=1000`."""

    model_config = SettingsConfigDict(env_prefix="INTERLINEAR_SERVE_", frozen=True, extra="forbid")

    models: tuple[ServedModelConfig, ...] = ()
    tracking: str | None = Field(None, description="MLflow's address, for models by registered name")
    cache: Path | None = Field(
        None, description="where fetched bundles are kept; default: under the user's cache folder"
    )
    cache_bytes: int = Field(
        10 * 2**30, ge=2**20, description="bytes that it may hold; what was used longest ago gives way to what is new"
    )
    poll_seconds: float = Field(10, gt=0, description="between two looks at what the aliases mean")
    device: str = Field("cpu", description="where to search: `cpu`, or one or more with commas: a process for each")
    precision: Precision = Field(
        "fp32", description="what is computed in; `bf16` is faster where the processor has such products"
    )
    threads: int | None = Field(None, ge=1, description="threads for the mathematics; default: torch's own choice")

    hang_seconds: float = Field(
        30,
        ge=1,
        description="silence of a search after which it hangs: a process is killed, a thread not live",
    )
    load_seconds: float = Field(600, ge=1, description="the same while it starts, or loads and warms a model")

    slots: int = Field(32, ge=1, le=1024, description="texts that one model searches at a time")
    beam: int = Field(5, ge=1, le=64, description="the widest beam that a request may ask for")

    body_bytes: int = Field(MIB, ge=1024, description="longest request body, without a picture")
    image_bytes: int = Field(MAX_BYTES, ge=1024, description="longest picture")
    image_pixels: int = Field(MAX_PIXELS, ge=1024, description="largest picture, width x height")
    body_room: int = Field(64 * MIB, ge=1024, description="bytes of request bodies that are held; over it 429")
    image_room: int | None = Field(None, ge=1024, description="the former name of body_room, which it goes before")
    image_threads: int = Field(2, ge=1, le=64, description="pictures that are decoded at a time")
    texts: int = Field(100, ge=1, description="most texts in one request")
    characters: int = Field(5000, ge=1, description="longest text")
    sentences: int = Field(1000, ge=1, description="most sentences in one request")
    explained: int = Field(30, ge=1, description="most sentences of a text that is explained")
    queue_texts: int = Field(512, ge=1, description="texts that may wait; over it a request is refused with 429")
    queue_tokens: int = Field(200_000, ge=1, description="tokens x beam that may wait")
    fair: bool = Field(True, description="whether callers share slots and queue; else who comes first is served first")
    prepare_threads: int = Field(2, ge=1, le=64, description="threads that detect languages, split and encode texts")
    seconds: float = Field(60, gt=0, description="longest time for one request, waiting included")
    heartbeat_seconds: float = Field(10, gt=0, description="between two signs of life in an answer that is streamed")
    grace_seconds: float = Field(30, ge=0, description="time to finish what was accepted when the service is stopped")

    keys: str | None = Field(
        None, description="the file of `interlinear keys`, or postgresql://...; where keys are asked for: keys.db"
    )
    require_key: bool = Field(False, description="whether work is done only for those who have a key")
    metrics_key: bool = Field(False, description="whether `/metrics` is read only by those who have a key")
    rate: float | None = Field(None, gt=0, le=1e6, description="texts a second of a key, else of an address")
    burst: int | None = Field(None, ge=1, description="texts at once; default: what a second brings, at least one")
    trusted_proxies: tuple[str, ...] = Field((), description="addresses or networks whose X-Forwarded-For is believed")
    origins: tuple[str, ...] = Field((), description="whose pages may ask from a browser (CORS), or `*`")

    header_bytes: int = Field(16 * 1024, ge=1024, description="longest request line and headers together")
    header_fields: int = Field(100, ge=16, description="most headers of a request")
    header_seconds: float = Field(10, gt=0, description="time for a request's headers to arrive")
    body_seconds: float = Field(30, gt=0, description="time for a request's body to arrive")
    connections: int = Field(1000, ge=1, description="most connections; further ones are answered 503")

    log_format: Literal["text", "json"] = "text"
    access_log: bool | None = Field(None, description="a line for every request; default: in JSON logs")

    @property
    def devices(self) -> tuple[str, ...]:
        """Where to search: `cuda:0,1` is cuda:0 and cuda:1."""
        named: list[str] = []
        for part in map(str.strip, self.device.split(",")):
            named.append(f"{named[-1].partition(':')[0]}:{part}" if part.isdigit() and named else part)
        return tuple(named)

    @property
    def uses_processes(self) -> bool:
        """Whether processes of their own search, one for each device; on one CPU it is a thread of the service's."""
        return self.devices != ("cpu",)

    @property
    def key_store(self) -> str | None:
        """Where keys are kept, if keys are used at all: a file's path, or a database's URL."""
        return self.keys or ("keys.db" if self.require_key or self.metrics_key else None)

    @field_validator("keys", mode="before")
    @classmethod
    def _key_file(cls, place: object) -> object:
        return str(place) if isinstance(place, Path) else place

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in proxies:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                raise ValueError(f"must be an IP address or network, not {proxy!r}") from None
        return proxies

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            if not ORIGIN_PATTERN.fullmatch(origin):
                raise ValueError(f"must be like https://example.org, without a path, not {origin!r}")
        return origins

    @model_validator(mode="after")
    def _beams(self) -> Self:
        for model in self.models:
            if model.beam and model.beam > self.beam:
                raise ValueError(f"{model.place}: a beam of {model.beam} is wider than the service's own, {self.beam}")
        return self
