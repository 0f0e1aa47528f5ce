"""Small models that were really trained, German to English and back and to headlines, and services of them."""

import itertools
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import torch
import uvicorn

from seq2seq.batch import collate
from seq2seq.bundle import Card, Limits, Task, write_bundle
from seq2seq.config import ModelConfig, TextVocabulary
from seq2seq.metrics.score import Score
from seq2seq.model import build
from seq2seq.search import SearchOptions
from seq2seq.text import TextConfig, Tokenizer
from service.app import create_app
from service.server import server_config
from service.settings import ModelPlace, Settings

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


MOST_STEPS = 800


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
    """A sentence, and a headline: who does what."""
    words = {"is running": "runs", "is sleeping": "sleeps", "is playing": "plays", "is sitting": "sits"}
    return [
        (capital(f"{who} {does} {where}."), capital(f"{who.split()[-1]} {words[does]}"))
        for (_, who), (_, does), (_, where) in itertools.product(WHO, DOES, WHERE)
    ]


def train(
    folder: Path,
    source: str,
    target: str,
    pairs: list[tuple[str, str]],
    learnt: float,
    task: Task = "translation",
    min_length: int = 0,
    **architecture: bool,
) -> Path:
    """A bundle that has learnt the pairs, to so many nats a sentence."""
    torch.manual_seed(3)
    tokenizers = {
        "source": Tokenizer.train((s for s, _ in pairs), TextConfig(units="bpe", vocabulary=400, language=source)),
        "target": Tokenizer.train((t for _, t in pairs), TextConfig(units="bpe", vocabulary=400, language=target)),
    }
    vocabularies = {name: TextVocabulary(vocabulary=tokenizer.size) for name, tokenizer in tokenizers.items()}
    config = ModelConfig(
        embedding=64,
        hidden=64,
        tie_embeddings="output",
        sources={"source": vocabularies["source"]},
        target=vocabularies["target"],
        **architecture,
    )
    model = build(config).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.015)
    draw = random.Random(5)
    for _ in range(MOST_STEPS):
        chosen = draw.sample(pairs, 24)
        batch = collate(
            {"source": [tokenizers["source"].encode(s).ids for s, _ in chosen]},
            [tokenizers["target"].encode(t).ids for _, t in chosen],
        )
        optimizer.zero_grad()
        loss = model.loss(batch)
        (loss.objective / 24).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        if float(loss.nats.detach()) / 24 < learnt:
            break
    card = Card(
        task=task,
        languages={"source": source, "target": target},
        model=config,
        search=SearchOptions(min_length=min_length),
        limits=Limits(source_length=150),
        metrics={"bleu": Score(score=99.0, signature="a test's")},
    )
    write_bundle(folder, model.eval(), tokenizers, card)
    return folder


@dataclass(frozen=True)
class Bundles:
    de_en: Path
    en_de: Path
    headlines: Path


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    folder, pairs = tmp_path_factory.mktemp("bundles"), sentences()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Bundles(
            train(folder / "de-en", "de", "en", pairs, learnt=0.1),
            train(folder / "en-de", "en", "de", [(t, s) for s, t in pairs], learnt=4.0),
            train(
                folder / "headlines",
                "en",
                "en",
                headlines(),
                learnt=0.1,
                task="summarization",
                min_length=2,
                word_attention=True,
                contextual_gates=True,
                alignment_module=True,
            ),
        )
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def settings(bundles: Bundles) -> Settings:
    places = {"de-en": bundles.de_en, "en-de": bundles.en_de, "headlines": bundles.headlines}
    return Settings(models=tuple(ModelPlace(name=name, place=str(place)) for name, place in places.items()), threads=1)


@contextmanager
def started(settings: Settings) -> Iterator[str]:
    """A real server in a thread, on a free port of loopback; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
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


@pytest.fixture(scope="session")
def serving() -> Callable[[Settings], AbstractContextManager[str]]:
    """Start services of one's own."""
    return started


@pytest.fixture(scope="session")
def address(settings: Settings) -> Iterator[str]:
    """The address of a service that all tests share."""
    with started(settings) as address:
        yield address


@pytest.fixture(scope="session")
def client(address: str) -> Iterator[httpx.Client]:
    """A client of that service that keeps its connections."""
    with httpx.Client(base_url=address, timeout=30) as client:
        yield client
