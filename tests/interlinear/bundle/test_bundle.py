"""Bundles: what is saved equals what is loaded, and errors name the damaged file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlinear.batch import collate
from interlinear.bundle import (
    Bundle,
    ModelCard,
    add_shortlist,
    check_files,
    hash_weights,
    load,
    unique_weights,
    write_bundle,
)
from interlinear.bundle.precision import resolve_precision
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.errors import BundleError, UsageError
from interlinear.losses.training_loss import training_loss
from interlinear.metrics.score import Score
from interlinear.models.model import Model, build
from interlinear.shortlist import LinkCounts, Shortlist, build_shortlist
from interlinear.text import TextConfig, Tokenizer
from tests.damage import DAMAGE, Damage

CARDS = "model.json", "README.md"  # files without a checksum in `files`


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer.train(["ein Hund läuft", "ein Kind lacht"], TextConfig(units="words", vocabulary=20))
    words = TextVocabulary(vocabulary=tokenizer.size)
    torch.manual_seed(1)
    model = build(RecurrentConfig(sources={"source": words}, target=words, tie_embeddings="all", hidden=8))
    card = ModelCard(model=model.config, languages={"source": "de", "target": "en"})
    write_bundle(tmp_path / "bundle", model, {"source": tokenizer, "target": tokenizer}, card)
    return tmp_path / "bundle"


def test_a_bundle_is_saved_and_loaded(folder: Path) -> None:
    bundle, again = load(folder), load(folder)
    assert bundle.card.weights_sha256 == hash_weights(unique_weights(bundle.model)) == again.card.weights_sha256
    (source_words,) = bundle.model.source_words
    assert bundle.model.output.weight is bundle.model.target_words.weight is source_words.weight
    assert bundle.tokenizers["source"].decode(bundle.tokenizers["source"].encode("ein Hund").ids) == "ein Hund"
    batch = collate({"source": [[5, 6]]}, [[6, 5]])
    assert torch.equal(training_loss(bundle.model, batch).nats, training_loss(again.model, batch).nats)
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "model.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json",
    ]  # fmt: skip


def test_all_users_may_read_a_bundle(folder: Path) -> None:
    """A service often runs as another user than the training."""
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (folder, *folder.iterdir()))


def test_the_readme_describes_the_model_and_may_be_edited(folder: Path) -> None:
    bundle = load(folder)
    score = Score(score=41.257, signature="nrefs:1|case:mixed")
    card = bundle.card.model_copy(
        update={
            "recipe": {
                "name": "rnnsearch",
                "about": "Additive attention",
                "training": {"objective": "risk", "init_from": "models:/de-en/3", "dev_beam": 2},
            },
            "data": {"name": "captions", "licence": "non-commercial", "dev_sentences": 1014},
            "metrics": {"dev_bleu": score, "dev_perplexity": Score(score=7.1, signature="per token")},
        }
    )
    card = write_bundle(folder, bundle.model, bundle.tokenizers, card)
    text = (folder / "README.md").read_text()
    parts = ["rnnsearch: de, en", "Additive attention", "captions - non-commercial", card.weights_sha256]
    parts += ["- objective: minimum risk: the expectation of 1 - BLEU", "- started from: models:/de-en/3"]
    parts += [r"| dev BLEU (1,014 sentences, beam 2) | 41.26 | `nrefs:1\|case:mixed` |", "| dev perplexity | 7.10 |"]
    assert all(part in text for part in parts)
    (folder / "README.md").write_text(f"{text}\nA note of the owner's.\n")
    load(folder)


def test_overwriting_a_bundle_leaves_one_complete_bundle(folder: Path) -> None:
    bundle = load(folder)
    torch.nn.init.ones_(bundle.model.output.bias)
    card = write_bundle(folder, bundle.model, bundle.tokenizers, bundle.card)
    assert load(folder).card.weights_sha256 == card.weights_sha256
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


def test_half_precision_weights_give_nearly_the_same_scores(folder: Path) -> None:
    batch = collate({"source": [[5, 6]]}, [[6, 5]])
    full, half = (load(folder, precision=p).model for p in ("fp32", "bf16"))
    assert half.output.weight.dtype == torch.bfloat16
    log_p = [m.log_probabilities(m.unroll(m.encode(batch), batch.target_BL[:, None])[0]) for m in (full, half)]
    torch.testing.assert_close(log_p[0], log_p[1], rtol=0, atol=0.05)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.source.json", "tokenizer.target.json"])
@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_a_damaged_file_is_named(folder: Path, name: str, harm: str) -> None:
    if harm == "missing":
        (folder / name).unlink()
    else:
        content = bytearray((folder / name).read_bytes())
        content[-3] ^= 1
        (folder / name).write_bytes(content)
    with pytest.raises(BundleError) as caught:
        load(folder)
    assert caught.value.where.endswith(name)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "cannot be read"),
        ("[1]", "cannot be read"),
        ("[" * 100_000, "nested too deeply"),
        ('{"format": 99}', "format 99"),
        ('{"model": {"cell": "lstm"}}', "format None"),
        ('{"format": 1, "model": {"cell": "elman", "sources": {}}}', r"model\.sources"),
        ('{"format": 1, "model": {"kind": "perceptron"}}', "model: kind: should be recurrent or transformer"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_damaged_card_is_named(folder: Path, content: str, says: str) -> None:
    (folder / "model.json").write_text(content, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(BundleError, match=says) as caught:
        load(folder)
    assert caught.value.where.endswith("model.json")


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a card by hand: without a checksum of its own."""
    card = json.loads((folder / "model.json").read_text())
    card.pop("content_sha256", None)
    change(card)
    (folder / "model.json").write_text(json.dumps(card))


def test_a_bundle_whose_card_has_no_checksum_loads(folder: Path) -> None:
    expected = said(load(folder))
    edit(folder, lambda card: None)
    bundle = load(folder)
    assert bundle.card.content_sha256 == "" and said(bundle) == expected


def test_a_card_that_was_edited_is_refused_until_its_checksum_is_removed(folder: Path) -> None:
    path = folder / "model.json"
    path.write_text(path.read_text().replace('"source_length": 200', '"source_length": 100'))
    with pytest.raises(BundleError, match="own checksum") as caught:
        load(folder)
    assert caught.value.where == str(path) and "remove content_sha256" in caught.value.remedy
    edit(folder, lambda card: None)
    assert load(folder).card.limits.source_length == 100


PARTS = ("model.safetensors", "tokenizer.source.json", "tokenizer.target.json")
SIZES = (9, 200_000, 10**15, 10**30)
OTHER_SIZES = r"do not fit the architecture|no model has the sizes"  # found before memory is allocated


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(
            (lambda card, size=size: card["model"].update(hidden=size), OTHER_SIZES)
            for size in (9, 200_000, 10**15, 10**30)
        ),
        (
            lambda card: card["model"].update(alignment_module=True),
            r"'alignment\S+' is not there, and by the architecture \d+",
        ),
        *((lambda card, name=name: card["files"].pop(name), f"no checksum of {name}") for name in PARTS),
        (lambda card: card.update(weights_sha256="0" * 64), "weights_sha256"),
        (lambda card: card["limits"].update(source_length=10**9), "limits.source_length"),
        (lambda card: card["limits"].update(target_length=10**9), "limits.target_length"),
        (lambda card: card["search"].update(min_length=10**9), "search.min_length"),
        (lambda card: card["search"].update(max_length=10**9), "search.max_length"),
        (lambda card: card["files"].update({"../secret": "0" * 64}), "not all in its folder"),
    ],
)
def test_a_card_that_does_not_fit_its_bundle_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    edit(folder, change)
    with pytest.raises(BundleError, match=says) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def said(bundle: Bundle[Model]) -> tuple[object, ...]:
    """Everything that a bundle's outputs depend on."""
    card = bundle.card.model_dump(exclude={"content_sha256"})
    return hash_weights(unique_weights(bundle.model)), {n: t.to_json() for n, t in bundle.tokenizers.items()}, card


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 3), damage=DAMAGE)
def test_a_damaged_bundle_is_refused_or_equals_the_original(folder: Path, place: int, damage: Damage) -> None:
    """For every file and every kind of damage: an error message, or the same model."""
    expected = said(load(folder))
    damaged = folder.with_name("damaged")
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(folder, damaged)
    names = ["model.json", "model.safetensors", "tokenizer.source.json", "tokenizer.target.json"]
    damage(damaged / names[place], folder / names[place - 1])
    try:
        bundle = load(damaged)
    except BundleError:
        return
    assert said(bundle) == expected


def test_a_shortlist_is_refused_on_a_gpu(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is for CPUs, and the device is cuda:0"):
        load(tmp_path, "cuda:0", shortlist=True)


def test_auto_precision_is_that_of_the_named_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of two computes in bf16, the second does not."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: True)  # of the current one
    monkeypatch.setattr(torch.cuda, "get_device_capability", {"cuda:0": (9, 0), "cuda:1": (7, 5)}.get)
    assert [resolve_precision("auto", device) for device in ("cuda:0", "cuda:1")] == ["bf16", "fp32"]


def shortlist_of(folder: Path, words: int = 1) -> Shortlist:
    """A shortlist for the bundle in a folder, whose only link is from word 5 to word 6."""
    tokenizers = load(folder).tokenizers
    size = tokenizers["target"].size
    counts = LinkCounts(size, size)
    counts.add(np.array([5]), np.array([6]))
    return build_shortlist({"source": counts}, np.zeros(size, np.int64), tokenizers, words, 0)


def test_a_shortlist_is_added_and_replaced_and_nothing_else_changes(folder: Path) -> None:
    before = load(folder)
    with pytest.raises(UsageError, match="bundle has none"):
        load(folder, shortlist=True)
    for _ in range(2):
        add_shortlist(folder, shortlist_of(folder))
        bundle = load(folder, shortlist=True)
        assert bundle.shortlist is not None
        assert {5, 6} <= set(bundle.shortlist.words({"source": [5]}).tolist())
        assert load(folder).shortlist is None
        names = set(bundle.card.files) - set(before.card.files)
        assert names == {"shortlist.safetensors"} == {p.name for p in folder.iterdir()} - {*before.card.files, *CARDS}
        changed = {"files", "content_sha256"}
        assert bundle.card.model_dump(exclude=changed) == before.card.model_dump(exclude=changed)


@pytest.mark.parametrize("harm", ["missing", "changed"])
def test_a_damaged_shortlist_is_refused_if_it_is_used_and_can_be_replaced(folder: Path, harm: str) -> None:
    add_shortlist(folder, shortlist_of(folder))
    path = folder / "shortlist.safetensors"
    content = bytearray(path.read_bytes())
    path.unlink()
    if harm == "changed":
        content[-3] ^= 1
        path.write_bytes(content)
    with pytest.raises(BundleError) as caught:
        load(folder, shortlist=True)
    assert caught.value.where == str(path)
    with pytest.raises(BundleError):
        check_files(folder)
    add_shortlist(folder, shortlist_of(folder))
    assert load(folder, shortlist=True).shortlist is not None


def test_a_bundle_is_complete_whenever_the_replacement_of_its_shortlist_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, renames = Path.replace, 9

    def replace(path: Path, target: Path) -> Path:
        nonlocal renames
        if renames == 0:
            raise KeyboardInterrupt
        renames -= 1
        return rename(path, target)

    shortlist = shortlist_of(folder, words=2)
    monkeypatch.setattr(Path, "replace", replace)
    for until in range(3):
        renames = 9
        add_shortlist(folder, shortlist)
        renames = until
        with pytest.raises(KeyboardInterrupt):
            add_shortlist(folder, shortlist)
        check_files(folder)
    renames = 9
    add_shortlist(folder, shortlist)
    assert load(folder, shortlist=True).shortlist is not None
    assert {path.name for path in folder.iterdir()} - {*CARDS} == set(load(folder).card.files)


def test_the_shortlist_of_another_bundle_is_refused(folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train(["eine Katze schläft"], TextConfig(units="words", vocabulary=20))
    words = TextVocabulary(vocabulary=tokenizer.size)
    model = build(RecurrentConfig(sources={"source": words}, target=words, hidden=8))
    tokenizers = {"source": tokenizer, "target": tokenizer}
    write_bundle(tmp_path / "other", model, tokenizers, ModelCard(model=model.config))
    add_shortlist(folder, shortlist_of(tmp_path / "other"))
    with pytest.raises(BundleError, match=r"another vocabulary \(source, target\)"):
        load(folder, shortlist=True)


def test_a_folder_without_a_card_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no bundle"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("languages", "direction"),
    [
        ({"source": "de", "target": "en"}, "de to en"),
        ({"source": "en", "mt": "de", "target": "de"}, "en and de to de"),
        ({"target": "en"}, "en"),
        ({}, ""),
    ],
)
def test_languages_are_written_as_words(folder: Path, languages: dict[str, str], direction: str) -> None:
    assert load(folder).card.model_copy(update={"languages": languages}).direction == direction
