"""What earlier versions have written is read: bundles, checkpoints, registered models and manifests.

`tests/data/version_0` was written by 93e5121, before modules and names changed: a run of `tests.training.toy` with its
bundle and checkpoints (2 epochs, hidden size 8), outputs of that bundle, and the file that MLflow kept beside a model.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tests.training.toy import toy_job, write_corpus

OLD = Path(__file__).parent / "data" / "version_0"
RECORDED: dict[str, Any] = json.loads((OLD / "outputs.json").read_text())
SETTINGS = ("model.hidden=8", "model.embedding=8", "training.average=1")


def test_a_bundle_gives_the_outputs_that_it_gave():
    import seq2seq
    from seq2seq.generate import SequenceGenerator
    from seq2seq.generation_request import Request

    bundle = seq2seq.load(OLD / "runs" / "old" / "bundle")
    requests = [Request({"source": text}, bundle.card.search) for text in RECORDED["source"]]
    results = list(SequenceGenerator(bundle).generate(requests))
    texts = [result.candidates[0].text for result in results if not isinstance(result, Exception)]
    assert texts == RECORDED["target"]


def test_a_registered_model_loads_with_the_file_that_mlflow_kept_beside_it():
    spec = importlib.util.spec_from_file_location("version_0_pyfunc", OLD / "pyfunc.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.Texts()
    model.load_context(SimpleNamespace(artifacts={"bundle": OLD / "runs" / "old" / "bundle"}))
    assert model.predict(None, pd.DataFrame({"source": RECORDED["source"]})) == RECORDED["target"]


def test_a_training_goes_on_from_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from training.loop.trainer import train

    write_corpus(tmp_path, pairs=RECORDED["pairs"])
    shutil.copytree(OLD / "runs", tmp_path / "runs")
    job = toy_job(tmp_path, run="old", resume=True, settings=[*SETTINGS, "training.epochs=3"])
    assert job.run == tmp_path / "runs" / "old"
    outcome = train(job)
    assert outcome.updates == RECORDED["updates"] * 3 // 2


def test_a_manifest_s_import_path_is_understood():
    from service import on_ray, ray_serve

    assert on_ray.build is ray_serve.build
    assert sys.modules["service.on_ray"] is on_ray
