"""An output that the model is not sure of is replaced by the machine translation, which is then the answer in all:
text, log-probability and explanation."""

import math
from dataclasses import replace

import pytest

from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer
from tests.interlinear.bundles import untrained

LINES = ["a bat flies", "the big bat sleeps", "the bat sleeps", "a big bat"]
TEXTS = {"source": "the bat sleeps", "mt": "the  big bat, sleeps"}  # two spaces, a word that no vocabulary has
OPTIONS = SearchOptions(beam=3, max_length=6)


@pytest.fixture(scope="module", params=["text", "operations"])
def generator(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SequenceGenerator:
    """A post-editing model with random weights, of text or of edit operations."""
    config = TextConfig(units="bpe", vocabulary=275)
    read = Tokenizer.train(LINES, config)
    written = config.model_copy(update={"operations_on": "mt"}) if request.param == "operations" else config
    write = Tokenizer.train(LINES, written)
    folder = tmp_path_factory.mktemp(request.param) / "bundle"
    tokenizers = {"source": read, "mt": read, "target": write}
    bundle = untrained(folder, tokenizers, 2, {"task": "post-edit"}, combination="flat")
    bundle.model.double()  # alone and in a batch then agree
    return SequenceGenerator(bundle)


def answer(generator: SequenceGenerator, request: Request, **options) -> GenerationResult:
    chosen = replace(request, options=request.options.model_copy(update=options))
    (found,) = generator.generate([chosen])
    assert isinstance(found, GenerationResult)
    return found


def mean_probability(found: GenerationResult) -> float:
    """The geometric mean over the tokens of the best output, its end symbol included."""
    best = found.candidates[0]
    return math.exp(best.log_probability / (len(best.ids) + 1))


def test_an_output_below_the_confidence_is_replaced_and_one_above_it_is_not(generator: SequenceGenerator):
    request = Request(TEXTS, OPTIONS)
    edited = answer(generator, request)
    sure = mean_probability(edited)
    assert edited.candidates[0].text != TEXTS["mt"]
    assert answer(generator, request, post_editing_confidence=sure - 1e-6) == edited
    (kept,) = answer(generator, request, post_editing_confidence=sure + 1e-6).candidates
    assert kept.text == TEXTS["mt"], "as it was given"
    forced = generator.forced_log_probabilities([generator.read_pair(TEXTS, TEXTS["mt"])])[0]
    assert len(kept.ids) == len(forced) and kept.log_probability < sum(forced), "with its end symbol"
    assert kept.score == pytest.approx(kept.log_probability / (len(kept.ids) + 1))


def test_the_other_outputs_follow_the_machine_translation(generator: SequenceGenerator):
    request = Request(TEXTS, OPTIONS.model_copy(update={"n_best": 3}))
    edited = [one.text for one in answer(generator, request).candidates]
    kept = [one.text for one in answer(generator, request, post_editing_confidence=1).candidates]
    assert kept == [TEXTS["mt"], *edited][:3]


def test_an_unedited_answer_is_explained_by_forced_decoding(generator: SequenceGenerator):
    found = answer(generator, Request(TEXTS, OPTIONS, explain=True), post_editing_confidence=1)
    (aligned,) = generator.align([(TEXTS, TEXTS["mt"])], confidence=True)
    assert found.explanation == found.candidates[0].explanation == aligned
    assert found.explanation.target[0].text == "the"


def test_without_a_machine_translation_or_with_a_prefix_the_output_stays(generator: SequenceGenerator):
    alone = Request({"source": "the bat sleeps"}, OPTIONS)
    assert answer(generator, alone, post_editing_confidence=1) == answer(generator, alone)
    if generator.bundle.tokenizers["target"].config.operations_on is None:
        begun = Request(TEXTS, OPTIONS, target_prefix="a bat")
        assert answer(generator, begun, post_editing_confidence=1).candidates[0].text.startswith("a bat")


def test_tokenised_text_stays_tokenised(generator: SequenceGenerator):
    texts, names = {"source": "the bat sleeps", "mt": "the bat , sleeps ."}, frozenset({"source", "mt", "target"})
    found = answer(generator, Request(texts, OPTIONS, tokenised=names), post_editing_confidence=1)
    assert found.candidates[0].text == texts["mt"]
    raw = answer(generator, Request(texts, OPTIONS, tokenised=names - {"target"}), post_editing_confidence=1)
    assert raw.candidates[0].text == "the bat, sleeps."


def test_no_beginning_is_certain_while_the_machine_translation_may_be_the_answer(generator: SequenceGenerator):
    for confidence, certain in ((0.0, {0, 1}), (0.9, {1})):
        options = OPTIONS.model_copy(update={"post_editing_confidence": confidence})
        rows = [(0, Request(TEXTS, options)), (1, Request({"source": "a big bat"}, options))]
        generator.admit([(key, generator.encode(request)) for key, request in rows])
        assert set(generator.prefixes([0, 1, 2])) == certain
        generator.cancel([0, 1])


def test_a_recipe_without_a_machine_translation_is_refused():
    from interlinear.errors import RecipeError
    from training.recipe import load_recipe

    settings = ["search.post_editing_confidence=0.8"]
    assert load_recipe("postedit_flat", settings).search.post_editing_confidence == 0.8
    with pytest.raises(RecipeError, match="there is no source 'mt'; there are source"):
        load_recipe("rnnsearch", settings)
