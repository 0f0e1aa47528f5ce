"""A served model's shortlist: used if the settings say so, by the thread and by worker processes."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from interlinear.bundle import add_shortlist, load
from interlinear.errors import UsageError
from interlinear.generation.translator import TranslatorReference
from interlinear.shortlist import LinkCounts, build_shortlist
from service.app import create_app
from service.engine.process import load_model
from service.engine.protocol import LoadModel, WorkerConfig
from service.engine.search_thread import SearchThread
from service.settings import ServedModelConfig, Settings
from tests.service.conftest import served

DOG = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}
FULL = "A dog is running in the park."


@pytest.fixture(scope="module")
def copying(bundles, tmp_path_factory) -> Path:
    """A bundle whose shortlist has no links: only what is the same in both vocabularies can be written."""
    folder = Path(shutil.copytree(bundles.de_en, tmp_path_factory.mktemp("copying") / "bundle"))
    tokenizers = load(folder).tokenizers
    counts = LinkCounts(tokenizers["source"].size, tokenizers["target"].size)
    add_shortlist(folder, build_shortlist({"source": counts}, np.zeros(counts.target_size), tokenizers, 1, 0))
    return folder


def answer(settings: Settings) -> str:
    with TestClient(create_app(settings)) as client:
        reply = client.post("/translate", json=DOG)
        assert reply.status_code == 200
        return str(reply.json()["translatedText"])


def test_the_settings_say_whether_a_shortlist_is_used(copying, monkeypatch):
    def settings(own: bool | None, **changes: bool) -> Settings:
        return Settings(models=(ServedModelConfig(name="mt", uri=str(copying), shortlist=own),), threads=1, **changes)

    limited = answer(settings(None, shortlist=True))
    assert limited != FULL and "dog" not in limited
    assert answer(settings(None)) == answer(settings(False, shortlist=True)) == FULL
    assert answer(settings(True)) == limited
    monkeypatch.setenv("INTERLINEAR_SERVE_SHORTLIST", "true")
    assert answer(settings(None)) == limited


def test_a_model_without_a_shortlist_is_refused_at_the_start(bundles):
    with pytest.raises(UsageError, match=r"has none\. Make it with `interlinear shortlist`"):
        create_app(served({"mt": bundles.de_en}, shortlist=True))


def test_a_worker_process_loads_the_shortlist_if_the_command_says_so(copying, bundles):
    def loaded(folder: Path, shortlist: bool):
        command = LoadModel(0, TranslatorReference(folder, 2, 5, shortlist))
        return load_model(command, WorkerConfig("cpu", "fp32", 1, 2), SearchThread([].append, 1, 2)).outcome

    assert "has none" in str(loaded(bundles.de_en, True))
    full, limited = ("".join(word.text for word in loaded(copying, each).target) for each in (False, True))
    assert full != limited
    assert set(limited.replace("<unk>", "")) <= set("a")  # the text of a warm-up
