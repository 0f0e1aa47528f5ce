"""Ensembles: several models, separated by commas, in place of one."""

import shutil
from pathlib import Path

import pytest
import torch

from interlinear.bundle import load, write_bundle
from interlinear.models.model import build


@pytest.fixture(scope="session")
def gated(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another system with the vocabularies of `toy`."""
    bundle = load(toy)
    torch.manual_seed(9)
    keys = {"word_attention": True, "contextual_gates": True, "embedding": 12, "cell": "gru"}
    model = build(bundle.card.model.model_copy(update=keys)).eval()
    folder = tmp_path_factory.mktemp("models") / "gated"
    write_bundle(folder, model, bundle.tokenizers, bundle.card.model_copy(update={"model": model.config}))
    return folder


def test_an_ensemble_of_one_model_twice_translates_like_the_model(toy, gated, parallel, run) -> None:
    source, _ = parallel
    alone = run("translate", toy, source, "--n-best", 2)
    assert run("translate", f"{toy},{toy}", source, "--n-best", 2) == alone
    mixed = run("translate", f"{toy}, {gated}", source, "--n-best", 2)
    assert mixed.count("\n") == alone.count("\n") and mixed != alone


def test_every_command_that_searches_accepts_several_models(toy, gated, parallel, tmp_path, run) -> None:
    source, target = parallel
    both = f"{toy},{gated}"
    scores = run.json("evaluate", both, "--source", source, "--reference", target)
    assert 0 <= scores["bleu"]["score"] <= 100
    lines = run.lines("align", both, "--source", source, "--target", target)
    assert len(lines) == 10 and all(lines)
    picture = tmp_path / "attention.svg"
    run("figure", "attention", both, "--source", "ein hund", "--output", picture)
    assert picture.stat().st_size


def test_an_attention_kind_of_one_member_only_cannot_align(toy, gated, parallel, run) -> None:
    source, target = parallel
    said = run.err(2, "align", f"{toy},{gated}", "--source", source, "--target", target, "--by", "gated")
    assert "It has attention, next, posterior." in said


def test_another_vocabulary_is_refused_by_its_file(toy, other_toy, parallel, run) -> None:
    said = run.err(1, "translate", f"{toy},{other_toy}", parallel[0])
    assert f"{other_toy}/tokenizer.source.json: an ensemble has one vocabulary" in said and said.count("\n") == 1


def test_an_empty_name_is_a_usage_error(toy, parallel, run) -> None:
    for names in (f"{toy},", f"{toy},nowhere"):
        assert run.err(2, "translate", names, parallel[0]).count("\n") == 1


def test_a_folder_name_may_contain_a_comma(toy, parallel, tmp_path, run) -> None:
    copied = shutil.copytree(toy, tmp_path / "one,two")
    assert run("translate", copied, parallel[0]) == run("translate", toy, parallel[0])
