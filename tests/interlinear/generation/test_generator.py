"""Generation from texts and images with a bundle that was saved and loaded again."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from interlinear.batch import collate
from interlinear.bundle import Bundle
from interlinear.config import ImageGrid, ImageNetwork
from interlinear.errors import ImageError, RequestError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.images.decode import read_image
from interlinear.models.attention_reading import READINGS
from interlinear.models.ensemble import Ensemble
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from interlinear.text import BEGIN, TextConfig, Tokenizer
from tests.interlinear.bundles import untrained
from tests.interlinear.systems import model_of

OPTIONS = SearchOptions(beam=3, max_length=6)
NETWORK = ImageNetwork(kind="small", size=32)  # 2 x 2 regions
GIVEN = ImageGrid(rows=2, columns=2, features=3, made_by="a network")


def written(folder: Path, image: ImageGrid) -> Bundle[Model]:
    tokenizer = Tokenizer.train(["a bat flies", "the big bat sleeps"], TextConfig(units="words", vocabulary=20))
    keys = {"cell": "gru", "decoder": "conditional", "first_state": "ends", "sentinel": True}
    return untrained(
        folder, dict.fromkeys(("source", "target"), tokenizer), 1, {"task": "multimodal"}, {"image": image},
        combination="hierarchical", initialization_scale=0.9, **keys,
    )  # fmt: skip


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> SequenceGenerator:
    grid = ImageGrid(rows=2, columns=2, features=128, network=NETWORK)
    bundle = written(tmp_path_factory.mktemp("seeing") / "bundle", grid)
    bundle.model.double()  # batch and single rows then agree to the last digit on every processor
    return SequenceGenerator(bundle)


@pytest.fixture(scope="module")
def given_features(tmp_path_factory: pytest.TempPathFactory) -> SequenceGenerator:
    return SequenceGenerator(written(tmp_path_factory.mktemp("features") / "bundle", GIVEN))


@pytest.fixture(scope="module")
def editing(tmp_path_factory: pytest.TempPathFactory) -> SequenceGenerator:
    """A model of two texts, whose words are cut into subwords."""
    sentences = ["a bat flies", "the big bat sleeps", "the bat sleeps", "a big bat"]
    tokenizer = Tokenizer.train(sentences, TextConfig(units="bpe", vocabulary=275))
    folder = tmp_path_factory.mktemp("editing") / "bundle"
    tokenizers = dict.fromkeys(("source", "mt", "target"), tokenizer)
    keys = {"combination": "hierarchical", "decoder": "conditional"}
    bundle = untrained(folder, tokenizers, 2, {"task": "post-edit"}, **keys)
    bundle.model.double()
    return SequenceGenerator(bundle)


def photograph(colour: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 40), colour).save(file, "JPEG")
    return file.getvalue()


def answers(generation: SequenceGenerator, requests: list[Request]) -> list[GenerationResult]:
    found = list(generation.generate(requests))
    assert all(isinstance(answer, GenerationResult) for answer in found), found
    return found  # type: ignore[return-value]


def test_any_source_may_be_absent_and_the_batch_does_not_change_results(seeing: SequenceGenerator) -> None:
    grid = seeing.bundle.card.model.images["image"]
    red, blue = (read_image(grid, photograph(colour)) for colour in ("red", "blue"))
    text = {"source": "the big bat sleeps"}
    requests = [
        Request(text, OPTIONS),
        Request(text, OPTIONS, images={"image": red}),
        Request({}, OPTIONS, images={"image": red}),
        Request(text, OPTIONS, images={"image": blue}),
        Request({"source": "a bat"}, OPTIONS),
    ]
    together = answers(seeing, requests)
    for request, beside in zip(requests, together, strict=True):
        (alone,) = answers(seeing, [request])
        assert beside.candidates[0].ids == alone.candidates[0].ids
        assert beside.candidates[0].score == pytest.approx(alone.candidates[0].score, abs=1e-9)
    scores = {round(answer.candidates[0].score, 4) for answer in together}
    assert len(scores) == len(requests)  # each row reads the sources that it has


def test_an_explanation_covers_every_source_that_is_present(seeing: SequenceGenerator) -> None:
    grid = seeing.bundle.card.model.images["image"]
    image = {"image": read_image(grid, photograph("green"))}
    both, text, seen = (
        answer.explanation
        for answer in answers(
            seeing,
            [
                Request({"source": "a bat flies"}, OPTIONS, explain=True, images=image),
                Request({"source": "a bat flies"}, OPTIONS, explain=True),
                Request({}, OPTIONS, explain=True, images=image),
            ],
        )
    )
    assert both and text and seen and both.sources and text.sources and seen.sources
    assert both.sources.keys() == {"source", "image"}
    assert text.sources.keys() == {"source"} and seen.sources.keys() == {"image"}
    shown = both.sources["image"]
    assert shown.grid == (2, 2) and np.array(shown.matrices["attention"]).shape == (len(both.target), 4)
    assert [word.text for word in both.sources["source"].words or []] == ["a", "bat", "flies"]
    assert both.between and both.between.keys() == {"source", "image", "sentinel"}
    for weights in zip(*both.between.values(), strict=True):
        assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert seen.source == [] and seen.matrices == {} and seen.alignment == []
    assert seen.between and not any(seen.between["source"])


def test_the_n_best_outputs_are_different_texts(editing: SequenceGenerator) -> None:
    """Several sequences of subwords are one text; the better one is kept, and further hypotheses fill the list."""
    options = SearchOptions(beam=5, n_best=4, max_length=3, repetition_guard=False)
    requests = [
        Request({"source": text, "mt": text}, options, explain=True) for text in ("a bat", "bat flies", "the big")
    ]
    for result in editing.generate(requests):
        assert isinstance(result, GenerationResult)
        texts = [candidate.text for candidate in result.candidates]
        assert len(texts) == len(set(texts)) == 4
        assert [c.score for c in result.candidates] == sorted((c.score for c in result.candidates), reverse=True)


def test_weights_of_the_next_step_over_every_source(editing: SequenceGenerator) -> None:
    """Words of several subwords, two texts and a model of both: the mean over the steps that read a word's subwords."""
    texts, target = {"source": "the big bat sleeps", "mt": "a bat sleeps"}, "the bat flies big"
    tokenizer, model = editing.bundle.tokenizers["target"], editing.bundle.model
    assert isinstance(model, Model)
    encoded = {name: tokenizer.encode(text) for name, text in texts.items()}
    output = tokenizer.encode(target)
    assert len(output.ids) > 4  # pieces
    with torch.inference_mode():
        memory = model.encode(collate({name: [one.ids] for name, one in encoded.items()}))
        state, steps = model.start(memory), []
        for token in [BEGIN, *output.ids]:
            state, _, attention_weights = model.step(memory, state, torch.tensor([[token]]))
            steps.append(attention_weights)

    def pieces_of(offsets: list[tuple[int, int]], text: str) -> list[list[int]]:
        words = [match.span() for match in re.finditer(r"\S+", text)]
        return [[k for k, (a, b) in enumerate(offsets) if start <= a and b <= end] for start, end in words]

    (by_output,), (by_input,) = (
        editing.align([(texts, target)], reading=READINGS[name]) for name in ("attention", "next")
    )
    assert by_input.sources and by_output.sources and by_input.between == by_output.between
    for name, text in texts.items():
        expected = []
        for pieces in pieces_of(output.offsets, target):
            rows = [steps[k + 1].weights[name, "attention"][0, 0] for k in pieces]  # step k + 1 reads token k
            mean = sum(rows) / len(rows)
            expected.append([float(sum(mean[i] for i in own)) for own in pieces_of(encoded[name].offsets, text)])
        assert by_input.sources[name].matrices["attention"] == by_output.sources[name].matrices["attention"]
        found = by_input.sources[name].matrices["next_attention"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=6e-5)  # explanations have four decimals
        assert np.abs(np.array(found) - by_output.sources[name].matrices["attention"]).max() > 0.01
    first = by_input.sources["source"].matrices["next_attention"]
    assert by_input.aligned_by == "next_attention" and by_output.aligned_by == "attention"
    assert by_input.alignment == sorted((int(np.argmax(row)), j) for j, row in enumerate(first))


def test_an_ensemble_is_read_at_the_next_step_too(editing: SequenceGenerator) -> None:
    model = editing.bundle.model
    assert isinstance(model, Model)
    pair = ({"source": "the big bat sleeps", "mt": "a bat"}, "the bat flies")
    twice = SequenceGenerator(replace(editing.bundle, model=Ensemble([model, model]).eval()))
    (alone,), (together,) = (one.align([pair], reading=READINGS["next"]) for one in (editing, twice))
    assert together.matrices == alone.matrices and together.alignment == alone.alignment


def test_the_alignment_module_has_no_next_step() -> None:
    model = model_of("uam")
    memory = model.encode(collate({"source": [[5, 6, 7]]}))
    attention_weights = model.forced_attention(memory, torch.tensor([[[6, 8, 2]]]))
    assert set(attention_weights.matrices("source")) == {"attention", "uam"}
    shifted = attention_weights.of_next_step()
    assert set(shifted.matrices("source")) == {"attention"}
    torch.testing.assert_close(shifted.attention, attention_weights.attention[:, :, 1:], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (Request({}, OPTIONS), "every source is missing"),
        (Request({"mt": "ein Hund"}, OPTIONS), "the model has no such source"),
        (Request({"image": "a bat"}, OPTIONS), "the model has no such source"),
        (Request({"source": " "}, OPTIONS), "the text is empty"),
        (
            Request({"source": "a bat"}, OPTIONS, images={"image": np.zeros((16, 16, 3), np.uint8)}),
            "the image is 16 x 16 x 3 of uint8, and the model reads image, 2 x 2 regions of 128 features from 32 x 32",
        ),
    ],
)
def test_unreadable_input_is_named(seeing: SequenceGenerator, request_: Request, says: str) -> None:
    (found,) = seeing.generate([request_])
    assert isinstance(found, RequestError) and says in str(found)


def test_a_model_of_image_features_reads_features_and_no_pixels(given_features: SequenceGenerator) -> None:
    features = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    with_image, without = answers(
        given_features,
        [
            Request({"source": "a bat flies"}, OPTIONS, images={"image": features}),
            Request({"source": "a bat flies"}, OPTIONS),
        ],
    )
    assert with_image.candidates[0].score != pytest.approx(without.candidates[0].score, abs=1e-4)
    with pytest.raises(RequestError, match="no network for pixels"):
        read_image(GIVEN, photograph("red"))


def test_features_of_the_wrong_shape_are_refused(seeing: SequenceGenerator) -> None:
    grid = seeing.bundle.card.model.images["image"]
    with pytest.raises(ImageError, match="not a picture"):
        read_image(grid, b"once upon a time")


def test_positions_are_counted_as_in_memory(seeing: SequenceGenerator) -> None:
    """Words and the end symbol, 4 regions of an image; a bucket holds 8 positions of each source."""
    grid = seeing.bundle.card.model.images["image"]
    generation = SequenceGenerator(seeing.bundle)
    assert generation.positions == (0, 0)
    texts = ({"source": "the big bat sleeps"}, {"source": "a bat"}, {})
    pictures = ({}, {"image": read_image(grid, photograph("red"))}, {"image": read_image(grid, photograph("blue"))})
    requests = [Request(text, OPTIONS, images=images) for text, images in zip(texts, pictures, strict=True)]
    generation.admit([(i, generation.encode(request)) for i, request in enumerate(requests)])
    memory = generation.table.memory
    assert memory is not None
    read, room = generation.positions
    assert (read, room) == (5 + 3 + 4 + 4, 3 * (8 + 8))
    assert read == sum(int(memory.lengths_B(source).sum()) for source in memory.capacity)
    generation.cancel([0, 1])
    assert generation.positions == (4, 16)


def test_a_text_in_capitals_is_read_as_training_text_and_answered_in_capitals(tmp_path: Path) -> None:
    sentences = ["Der Hund sieht den Mann.", "Ein Mann sieht den Hund."] * 3
    tokenizer = Tokenizer.train(sentences, TextConfig(units="words", vocabulary=30))
    bundle = untrained(tmp_path / "bundle", dict.fromkeys(("source", "target"), tokenizer), 5)
    generator = SequenceGenerator(bundle)
    texts = [sentences[0], sentences[0].upper(), sentences[0].lower()]
    plain, capitals, small = answers(generator, [Request({"source": t}, OPTIONS, explain=True) for t in texts])
    assert capitals.candidates[0].text == plain.candidates[0].text.upper()
    assert small.candidates[0].ids == plain.candidates[0].ids
    for answer, text in ((capitals, texts[1]), (small, texts[2])):
        assert answer.explanation is not None
        output = answer.candidates[0].text
        assert all(text[word.start : word.end] == word.text for word in answer.explanation.source)
        assert all(output[word.start : word.end] == word.text for word in answer.explanation.target)


def test_a_word_that_the_text_has_twice_is_not_guarded_against_repetition(editing):
    """Attention on one of two equal words does not tell it from the other."""

    def source_words(text: str) -> tuple[int, ...]:
        row = editing.encode(Request({"source": text, "mt": "a bat"}, OPTIONS))
        return editing.request_encoder.source_words(row)

    assert set(source_words("the big bat sleeps")) >= {0, 1, 2, 3}
    assert {number for number in source_words("the bat Bat sleeps") if number >= 0} == {0, 1}
