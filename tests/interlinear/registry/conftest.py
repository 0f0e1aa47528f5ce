"""A real bundle, tiny and untrained, and a real store in SQLite."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from interlinear.bundle import ModelCard, write_bundle
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.metrics.score import Score
from interlinear.models.model import build
from interlinear.registry.store import MlflowStore
from interlinear.text import TextConfig, Tokenizer

LINES = ["ein Hund läuft .", "eine Katze schläft .", "a dog runs .", "a cat sleeps ."]


def write_small(folder: Path, seed: int = 1) -> Path:
    """Write a bundle of an untrained model; equal seeds give equal weights."""
    torch.manual_seed(seed)
    tokenizer = Tokenizer.train(LINES, TextConfig(units="words", vocabulary=40))
    vocabulary = TextVocabulary(vocabulary=tokenizer.size)
    config = RecurrentConfig(sources={"source": vocabulary}, target=vocabulary, embedding=6, hidden=6)
    card = ModelCard(
        languages={"source": "de", "target": "en"},
        model=config,
        recipe={"name": "rnnsearch"},
        data={"name": "demo"},
        metrics={"dev_bleu": Score(score=41.147, signature="nrefs:1")},
        git_commit="0123abc",
    )
    write_bundle(folder, build(config), {"source": tokenizer, "target": tokenizer}, card)
    return folder


@pytest.fixture
def make_bundle(tmp_path: Path) -> Callable[..., Path]:
    return lambda name="bundle", seed=1: write_small(tmp_path / name, seed)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of an empty store, created once because MLflow takes a second for them."""
    folder = tmp_path_factory.mktemp("store")
    MlflowStore(f"sqlite:///{folder}/mlflow.db", create=True).list_models()
    return folder / "mlflow.db"


@pytest.fixture
def store(tmp_path: Path, empty_store: Path) -> MlflowStore:
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    return MlflowStore(f"sqlite:///{tmp_path}/mlflow.db")


def log_version(store: MlflowStore, bundle: Path) -> str:
    """Log a bundle in a run of its own and register it as `de-en`; returns the run's id."""
    run_id = store.client.create_run(store.experiment("demo")).info.run_id
    store.register(store.log_model(bundle, run_id), "de-en")
    return str(run_id)


@pytest.fixture
def log(store: MlflowStore) -> Callable[[Path], str]:
    return partial(log_version, store)
