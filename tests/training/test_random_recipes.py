"""Random recipes: each is refused with a message that names a key, or trains, searches and explains."""

import copy
import random
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from interlinear.batch import Batch, ImageInput, collate
from interlinear.bundle import Bundle, ModelCard
from interlinear.config import ImageGrid, RecurrentArchitecture, RecurrentConfig
from interlinear.errors import RecipeError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.images.decode import blank_image
from interlinear.models.model import Model, build
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer
from training.loop.optim import build_optimizer
from training.loop.training_step import Objective
from training.recipe import Recipe, validate_recipe

DRAWS, PARTS = 300, 10
SIZES = (3, 4, 6)
CHOICES: dict[str, tuple[object, ...]] = {
    "cell": ("gru", "lstm"),
    "layers": (1, 2),
    "encoder_layers": (1, 2),
    "decoder_layers": (1, 2),
    "encoder_stacks": ("separate", "interleaved"),
    "directions": ("concatenated", "summed"),
    "selective_gate": ("sum", "concatenation"),
    "gru": ("cudnn", "paper"),
    "layer_norm": (True,),
    "embedding": SIZES,
    "hidden": SIZES,
    "decoder": ("bahdanau", "conditional", "luong"),
    "attention": ("additive", "bilinear"),
    "attention_size": SIZES,
    "word_attention": (True,),
    "word_attention_size": ("embedding", 5),
    "contextual_gates": (True,),
    "writing": ("shared", "separate"),
    "coverage": ("neural", "linguistic"),
    "coverage_size": (2, 3),
    "fertility": (1.5,),
    "alignment_module": (True,),
    "alignment_weight": (2.0,),
    "alignment_longer": ("first", "all", "scaled"),
    "combination": ("concat", "flat", "hierarchical"),
    "combination_size": SIZES,
    "share_projections": (True, False),
    "sentinel": (True,),
    "source_dropout": (0.3,),
    "image_words": (0.5,),
    "first_state": ("first_backward", "mean", "last", "zero", "sum", "ends"),
    "first_word": ("symbol", "zero"),
    "readout": ("tanh", "linear", "maxout"),
    "tie_embeddings": ("output", "all"),
    "dropout": (0.2,),
    "output_dropout": (0.2,),
    "word_dropout": (0.2,),
    "state_dropout": (0.2,),
    "initialization": ("xavier", "uniform", "orthogonal"),
    "initialization_scale": (0.3,),
}
SOURCES: dict[str, dict[str, object]] = {
    "mt": {"kind": "text", "units": "words", "vocabulary": 30},
    "image": {"kind": "image", "size": 16},
    "grid": {"kind": "image", "encoder": "grid"},
}
GRID = ImageGrid(rows=1, columns=2, features=3)
LINES = ("the bat flies", "a bat sleeps", "the big cat")
TOKENIZER = Tokenizer.train(LINES, TextConfig(units="words", vocabulary=30))


def drawn(number: int) -> dict[str, Any]:
    """A random recipe: every model key is set or not, independently of the others."""
    chance = random.Random(number)
    of_all = chance.choice((0.1, 0.25, 0.4))
    text = {"kind": "text", "units": "words", "vocabulary": 30}
    sources = {"source": text} | {name: own for name, own in SOURCES.items() if chance.random() < 0.25}
    model = {key: chance.choice(values) for key, values in CHOICES.items() if chance.random() < of_all}
    if len(sources) > 1:
        model["combination"] = chance.choice(CHOICES["combination"])
    sizes = {"embedding": chance.choice(SIZES), "hidden": chance.choice(SIZES)}
    return {
        "sources": sources,
        "target": {key: value for key, value in text.items() if key != "kind"},
        "joint_vocabulary": chance.random() < 0.5,
        "model": sizes | model,
        "training": {
            "batch_sentences": 3,
            "precision": chance.choice(("fp32", "bf16")),
            "label_smoothing": chance.choice((0.0, 0.1)),
        },
        "search": {"beam": 2, "n_best": 2, "max_length": 4, "shrinking": chance.random() < 0.3},
    }


def read(content: dict[str, Any]) -> tuple[Recipe, RecurrentConfig]:
    recipe = validate_recipe("drawn", content)
    return recipe, recipe.model_for(dict.fromkeys([*recipe.texts, "target"], TOKENIZER.size), {"grid": GRID})


def accepted(content: dict[str, Any]) -> tuple[Recipe, RecurrentConfig]:
    """The recipe after removing what is refused: the model key that the message names first, or a source."""
    model, sources = content["model"], content["sources"]
    while True:
        try:
            return read(content)
        except RecipeError as error:
            named = re.findall(r"\w+(?=:)", str(error).removeprefix("drawn: "))
            optional = [key for key in named if key in model and key not in ("embedding", "hidden")]
            if optional:
                del model[optional[0]]
            else:
                assert len(sources) > 1 and {"sources", "combination"} & set(named), error
                sources.popitem()


def batch_for(config: RecurrentConfig) -> Batch:
    """A batch in which every source is missing from a row, if there are several."""
    rows = len(LINES)
    several = len(config.sources) > 1
    absent = {name: (number + 1) % rows if several else None for number, name in enumerate(config.sources)}
    ids = [TOKENIZER.encode(line).ids for line in LINES]
    texts = {name: [None if row == absent[name] else ids[row] for row in range(rows)] for name in config.texts}
    images = {}
    for name, grid in config.images.items():
        lengths = torch.tensor([0 if row == absent[name] else grid.regions for row in range(rows)])
        images[name] = ImageInput(torch.ones(rows, *torch.as_tensor(blank_image(grid)).shape), lengths)
    return collate(texts, ids[::-1], images=images)


def train_a_step(recipe: Recipe, model: Model) -> None:
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    steps = build_optimizer(recipe.training, list(model.parameters()))
    bf16 = recipe.training.precision == "bf16"
    with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
        loss = Objective(recipe.training).loss(model.train(), batch_for(model.config))
    assert torch.isfinite(loss.objective)
    loss.objective.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.isfinite(parameter.grad).all(), name
    steps.step()
    assert any(not torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def compare_without_host_lengths(recipe: Recipe, model: Model) -> None:
    """Loss and gradients are the same where the lengths are on the device only, as CUDA graphs need it."""
    model = copy.deepcopy(model).double().eval()
    parameters, batch = list(model.parameters()), batch_for(model.config)
    expected = Objective(recipe.training).loss(model, batch)
    found = Objective(recipe.training).loss(model, batch.without_host_lengths())
    torch.testing.assert_close([found.objective, found.nats], [expected.objective, expected.nats], rtol=1e-10, atol=0)
    gradients = [
        torch.autograd.grad(loss.objective, parameters, allow_unused=True, materialize_grads=True)
        for loss in (found, expected)
    ]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


def search_and_explain(model: Model, options: SearchOptions) -> None:
    """With all sources, and with each source alone."""
    config = model.config
    tokenizers = dict.fromkeys([*config.texts, "target"], TOKENIZER)
    generation = SequenceGenerator(Bundle(model.eval(), tokenizers, ModelCard(model=config), Path()))
    texts = dict.fromkeys(config.texts, LINES[0])
    images = {name: blank_image(grid) for name, grid in config.images.items()}
    requests = [Request(texts, options, True, images=images)]
    if len(config.sources) > 1:
        requests += [Request({name: text}, options, True) for name, text in texts.items()]
        requests += [Request({}, options, True, images={name: image}) for name, image in images.items()]
    for answer in generation.generate(requests):
        assert isinstance(answer, GenerationResult), answer
        assert len(answer.candidates) == 2 and answer.explanation is not None


def test_every_model_key_is_sampled() -> None:
    assert set(CHOICES) == set(RecurrentArchitecture.model_fields) - {"kind"}


@pytest.mark.parametrize("part", [0, 1, *(pytest.param(part, marks=pytest.mark.slow) for part in range(2, PARTS))])
def test_a_recipe_is_refused_with_a_message_or_works(part: int) -> None:
    for number in range(part, DRAWS, PARTS):
        content = drawn(number)
        recipe, config = accepted(content)
        torch.manual_seed(number)
        try:
            model = build(config)
            compare_without_host_lengths(recipe, model)
            train_a_step(recipe, model)
            search_and_explain(model, recipe.search)
        except Exception as error:
            error.add_note(f"recipe {number}:\n{yaml.safe_dump(content)}")
            raise
