"""Small trained models, one or two for each task, and services that serve them."""

import asyncio
import base64
import itertools
import json
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
import sqlalchemy
import torch
import uvicorn
from filelock import FileLock

from interlinear.batch import collate, stack_images
from interlinear.bundle import Limits, ModelCard, load, write_bundle
from interlinear.config import ImageGrid, ImageNetwork, RecurrentConfig, Task, TextVocabulary
from interlinear.images.decode import blank_image
from interlinear.losses.training_loss import training_loss
from interlinear.metrics.score import Score
from interlinear.models.model import build
from interlinear.registry.resolve import fetch_bundle
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer
from service.app import create_app
from service.engine.preparation import PreparationPool
from service.http.server import server_config
from service.settings import ServedModelConfig, Settings
from tests.interlinear.registry.servers import postgres
from tests.service.balls import COLOURS, CORNERS, SIZE, picture
from training.loop.examples import jpeg

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from interlinear.registry.store import MlflowStore

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-background-networking"]

WHO = [
    ("ein Hund", "a dog"),
    ("eine Frau", "a woman"),
    ("ein Mann", "a man"),
    ("ein Kind", "a child"),
    ("eine Katze", "a cat"),
]
DOES = [("läuft", "is running"), ("schläft", "is sleeping"), ("spielt", "is playing"), ("sitzt", "is sitting")]
WHERE = [
    ("im Park", "in the park"),
    ("am Fluss", "by the river"),
    ("im Garten", "in the garden"),
    ("auf der Straße", "on the street"),
]


ALIAS = "models:/mt@champion"
MOST_STEPS = 500


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def sentences() -> list[tuple[str, str]]:
    pairs = []
    for (who, who_), (does, does_), (where, where_) in itertools.product(WHO, DOES, WHERE):
        english = capital(f"{who_} {does_} {where_}.")
        pairs += [(capital(f"{who} {does} {where}."), english), (capital(f"{where} {does} {who}."), english)]
        pairs.append((capital(f"{who} {does}."), capital(f"{who_} {does_}.")))
    return pairs


def headlines() -> list[tuple[str, str]]:
    """A sentence, and a headline: subject, verb and object."""
    words = {"is running": "runs", "is sleeping": "sleeps", "is playing": "plays", "is sitting": "sits"}
    return [
        (capital(f"{who} {does} {where}."), capital(f"{who.split()[-1]} {words[does]}"))
        for (_, who), (_, does), (_, where) in itertools.product(WHO, DOES, WHERE)
    ]


@dataclass(frozen=True)
class Example:
    """A model's input, in which some sources may be absent, and its reference output."""

    texts: dict[str, str | None]
    target: str
    image: np.ndarray | None = None

    @property
    def shown(self) -> dict[str, str]:
        """The inputs as a model card has them."""
        inputs = {name: text for name, text in self.texts.items() if text}
        return inputs if self.image is None else inputs | {"image": base64.b64encode(jpeg(self.image)).decode()}


def texts(pairs: list[tuple[str, str]]) -> list[Example]:
    return [Example({"source": source}, target) for source, target in pairs]


def balls() -> list[Example]:
    """Only the German text and the image state the attributes of the ball or chair; without an image the German text
    omits them."""
    things = {"ball": "Ball", "chair": "Stuhl"}
    shown = [
        Example({"source": f"The {thing}."}, f"Der {colour} {name}.", np.asarray(picture(colour, corner)))
        for thing, name in things.items()
        for colour in COLOURS
        for corner in CORNERS
    ]
    alone = [
        Example({"source": None}, f"Der {one.target.split()[1]} Ball.", one.image) for one in shown[: len(shown) // 2]
    ]
    return shown + alone + [Example({"source": f"The {thing}."}, f"Der {name}.") for thing, name in things.items()] * 8


def edits() -> list[Example]:
    """Verbs that a machine translation left in their dictionary form, and their corrected forms."""
    infinitives = {"läuft": "laufen", "schläft": "schlafen", "spielt": "spielen", "sitzt": "sitzen"}
    rows = []
    for (who, who_), (does, does_), (where, where_) in itertools.product(WHO, DOES, WHERE):
        right, english = capital(f"{who} {does} {where}."), capital(f"{who_} {does_} {where_}.")
        wrong = right.replace(does, infinitives[does])
        rows += [Example({"source": english, "mt": wrong}, right), Example({"source": None, "mt": wrong}, right)]
    return rows


def train(
    folder: Path,
    languages: dict[str, str],
    rows: list[Example],
    learnt: float,
    task: Task = "translation",
    min_length: int = 0,
    images: ImageGrid | None = None,
    examples: Sequence[int] = (),
    **architecture: Any,
) -> Path:
    """A bundle trained on the rows until a loss of so many nats a sentence, with some of the texts as examples in its
    card."""
    torch.manual_seed(1)
    own = {name: [row.texts[name] for row in rows] for name in languages if name != "target"}
    own["target"] = [row.target for row in rows]
    tokenizers = {
        name: Tokenizer.train(filter(None, own[name]), TextConfig(units="bpe", vocabulary=400, language=language))
        for name, language in languages.items()
    }
    vocabularies = {name: TextVocabulary(vocabulary=tokenizer.size) for name, tokenizer in tokenizers.items()}
    target = vocabularies.pop("target")
    config = RecurrentConfig(
        embedding=64,
        hidden=64,
        tie_embeddings="output",
        sources=vocabularies | ({"image": images} if images else {}),
        target=target,
        **architecture,
    )
    model = build(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.015 if images is None else 0.002)
    draw = random.Random(5)
    for _ in range(MOST_STEPS):
        chosen = draw.sample(rows, 24)
        read = {
            name: [None if (text := row.texts[name]) is None else tokenizers[name].encode(text).ids for row in chosen]
            for name in vocabularies
        }
        seen = (
            {"image": stack_images([row.image for row in chosen], blank_image(images), images.regions)}
            if images
            else {}
        )
        batch = collate(read, [tokenizers["target"].encode(row.target).ids for row in chosen], images=seen)
        optimizer.zero_grad()
        loss = training_loss(model, batch)
        (loss.objective / 24).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if float(loss.nats.detach()) / 24 < learnt:
            break
    else:
        raise AssertionError(f"{folder.name}: not learnt in {MOST_STEPS} steps")
    card = ModelCard(
        task=task,
        languages=languages,
        model=config,
        search=SearchOptions(min_length=min_length),
        limits=Limits(source_length=150),
        metrics={"bleu": Score(score=99.0, signature="a test's")},
        examples=[rows[i].shown for i in examples],
    )
    write_bundle(folder, model.eval(), tokenizers, card)
    return folder


SEVERAL = {"cell": "gru", "decoder": "conditional", "first_state": "ends", "combination": "hierarchical"}


class Bundles:
    """Bundles by task, each trained on first use, once for all processes of a test run."""

    NAMES = ("de_en", "en_de", "headlines", "pictures", "edits")

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def folders(self) -> dict[str, Path]:
        """Bundle folders by the names under which they are served."""
        return {name.replace("_", "-"): getattr(self, name) for name in self.NAMES}

    def made(self, name: str, *what: Any, **how: Any) -> Path:
        bundle = self.folder / name
        with FileLock(self.folder / f"{name}.lock"):
            if not bundle.exists():
                threads = torch.get_num_threads()
                torch.set_num_threads(1)
                try:
                    train(self.folder / f"{name}.new", *what, **how).rename(bundle)
                finally:
                    torch.set_num_threads(threads)
        return bundle

    @cached_property
    def de_en(self) -> Path:
        languages = {"source": "de", "target": "en"}
        return self.made("de-en", languages, texts(sentences()), learnt=0.1, examples=(0, 40, 80))

    @cached_property
    def en_de(self) -> Path:
        back = texts([(english, german) for german, english in sentences()])
        return self.made("en-de", {"source": "en", "target": "de"}, back, learnt=4.0)

    @cached_property
    def headlines(self) -> Path:
        return self.made(
            "headlines",
            {"source": "en", "target": "en"},
            texts(headlines()),
            learnt=0.1,
            task="summarization",
            examples=(3, 20, 40),
            min_length=2,
            word_attention=True,
            contextual_gates=True,
            alignment_module=True,
        )

    @cached_property
    def pictures(self) -> Path:
        return self.made(
            "pictures",
            {"source": "en", "target": "de"},
            balls(),
            learnt=0.1,
            task="multimodal",
            examples=(0,),
            images=ImageGrid(rows=2, columns=2, features=128, network=ImageNetwork(kind="small", size=SIZE)),
            sentinel=True,
            image_words=1.0,
            **SEVERAL,
        )

    @cached_property
    def edits(self) -> Path:
        languages = {"source": "en", "mt": "de", "target": "de"}
        return self.made("edits", languages, edits(), learnt=0.1, task="post-edit", examples=(0, 10), **SEVERAL)


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return shared_bundles(tmp_path_factory)


def shared_bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    """The bundles of this run of the tests, made once by whichever process needs one first."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # the folder of a worker lies in that of the run
        folder = folder.parent
    (folder / "bundles").mkdir(exist_ok=True)
    return Bundles(folder / "bundles")


def changed(bundle: Path, folder: Path, **card: Any) -> Path:
    """A copy of a bundle in this folder, with some values of its card changed."""
    loaded = load(bundle)
    write_bundle(folder, loaded.model, loaded.tokenizers, loaded.card.model_copy(update=card))
    return folder


def served(folders: Mapping[str, Path], **changes: Any) -> Settings:
    """Settings of a service of these bundles, by name."""
    models = tuple(ServedModelConfig(name=name, uri=str(folder)) for name, folder in folders.items())
    return Settings(models=models, threads=1, **changes)


@pytest.fixture(scope="session")
def settings(bundles: Bundles) -> Settings:
    """Settings of a service of one model for each task, and one of the opposite direction."""
    return served(bundles.folders)


@pytest.fixture(scope="session")
def one_model(bundles: Bundles) -> Settings:
    """Settings of a service that translates German into English."""
    return served({"de-en": bundles.de_en})


@contextmanager
def started(settings: Settings, port: int = 0) -> Iterator[str]:
    """A real server in a thread, on a free or given port of loopback; yields its address."""
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(server_config(create_app(settings)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not end"


def until(true: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a condition holds; fail after a timeout."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


@contextmanager
def busy(preparation: PreparationPool) -> Iterator[None]:
    """All threads that prepare texts are busy until the end."""
    goes_on = threading.Event()
    with ThreadPoolExecutor(1) as caller:
        work = preparation.map("somebody", lambda _: goes_on.wait(), [1] * 4, lambda _: 10**6)
        held = caller.submit(asyncio.run, work)
        try:
            until(lambda: preparation.waiting == 2)
            yield
        finally:
            goes_on.set()
        assert held.result() == [True] * 4


@contextmanager
def sent(address: str, body: object, *headers: str) -> Iterator[socket.socket]:
    """A connection over which a request for a translation was sent; it is closed at the end, answered or not."""
    content = json.dumps(body).encode()
    head = ["POST /translate HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {len(content)}"]
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall("\r\n".join([*head, *headers, "", ""]).encode() + content)
        yield connection


@pytest.fixture(scope="session")
def serving() -> Callable[..., AbstractContextManager[str]]:
    """Starts services for a single test."""
    return started


@pytest.fixture(scope="session")
def shared(bundles: Bundles) -> Iterator[Callable[..., str]]:
    """Addresses of services by the names of their models and by settings, each started on first use, for all tests that
    change nothing in it."""
    with ExitStack() as running:

        @cache
        def address(*names: str, **changes: Any) -> str:
            folders = {name: getattr(bundles, name.replace("-", "_")) for name in names or ["de-en"]}
            return running.enter_context(started(served(folders, **changes)))

        yield address


@pytest.fixture(scope="session")
def address(settings: Settings) -> Iterator[str]:
    """The address of a service that all tests share."""
    with started(settings) as address:
        yield address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    """A client of the shared service with keep-alive connections."""
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client


@dataclass(frozen=True)
class Registered:
    """A registry whose `mt` has versions 1, 2 (short outputs) and 3 (other languages)."""

    store: "MlflowStore"
    folder: Path

    @property
    def tracking(self) -> str:
        return f"sqlite:///{self.folder}/mlflow.db"

    def settings(self, **changes: object) -> Settings:
        models = (ServedModelConfig(name="mt", uri=ALIAS),)
        given = {"models": models, "tracking": self.tracking, "cache": self.folder / "cache", "poll_seconds": 0.05}
        return Settings(**(given | {"threads": 1} | changes))

    def promote(self, version: int) -> None:
        self.store.promote("mt", str(version))

    def artifacts(self, version: int) -> Path:
        return fetch_bundle(f"models:/mt/{version}", self.tracking).folder


@pytest.fixture(scope="session")
def made(bundles: Bundles, tmp_path_factory: pytest.TempPathFactory) -> Registered:
    from interlinear.registry.store import MlflowStore  # imports MLflow

    folder = tmp_path_factory.mktemp("registered")
    second = changed(bundles.de_en, folder / "short", search=SearchOptions(max_length=2))
    store = MlflowStore(f"sqlite:///{folder}/mlflow.db", create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", "")
        for bundle in (bundles.de_en, second, bundles.en_de):
            run = store.client.create_run(store.experiment("test")).info.run_id
            store.register(store.log_model(bundle, run), "mt")
    return Registered(store, folder)


@pytest.fixture
def registered(made: Registered) -> Iterator[Registered]:
    """The registry, in which version 1 is the champion."""
    made.promote(1)
    yield made
    shutil.rmtree(made.folder / "cache", ignore_errors=True)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a PostgreSQL."""
    with postgres("interlinear", "s3cret") as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of keys, suggestions and glossaries of each kind: a file, or a database."""
    if request.param == "sqlite":
        return str(tmp_path / "keys.db")
    address = request.getfixturevalue("server")
    with sqlalchemy.create_engine(address).begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS keys, rates, suggestions, glossaries")
    return address


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """Debian's Chromium."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=15_000)  # rendering is slow on a busy machine
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
