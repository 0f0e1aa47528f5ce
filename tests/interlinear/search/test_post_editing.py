"""The post-editing penalty: words of an output that are in no input cost what they should, and nothing else changes."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from interlinear.batch import CandidateInput, collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.generation.forced_decoding import forced_log_probabilities
from interlinear.models.ensemble import Ensemble
from interlinear.models.model import Model, build
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.search.test_captured import Recomputed

VOCABULARY, LONGEST = 7, 3
SOURCE, MT = [4, 6, 5, 4], [4, 5]


def editor(seed: int = 2) -> Model:
    torch.manual_seed(seed)
    words = TextVocabulary(vocabulary=VOCABULARY)
    sizes = {"embedding": 6, "hidden": 5, "initialization": "uniform", "initialization_scale": 1.2}
    config = RecurrentConfig(
        cell="gru", decoder="conditional", first_state="ends", combination="concat",
        sources={"source": words, "mt": words}, target=words, **sizes,
    )  # fmt: skip
    return build(config).double().eval()


def request(key: int, penalty: float, words: Sequence[int], **options: object) -> SearchRequest:
    chosen = SearchOptions(post_editing_penalty=penalty, max_length=LONGEST, **options)  # type: ignore[arg-type]
    return SearchRequest(key, chosen, LONGEST, True, input_words=frozenset({0, 1, 2, 3, *words}))


def run(table: SlotTable, waiting: Sequence[tuple[SearchRequest, list[int], list[int], int]]) -> list[SearchResult]:
    """Searches sentences, each admitted at its own step."""
    done: list[SearchResult] = []
    for clock in itertools.count():
        now = [each for each in waiting if each[3] == clock]
        if now:
            batch = collate({"source": [source for _, source, _, _ in now], "mt": [mt for _, _, mt, _ in now]})
            table.admit(batch, [asked for asked, *_ in now])
        table.step()
        done += table.pop_finished()
        if len(done) == len(waiting):
            return sorted(done, key=lambda one: int(str(one.key)))
    raise AssertionError


def every_output(model: EncoderDecoder) -> dict[tuple[int, ...], list[float]]:
    """The log-probabilities of the words of every possible output, its END included."""
    outputs = [list(o) for n in range(LONGEST + 1) for o in itertools.product([1, 4, 5, 6], repeat=n)]
    batch = collate({"source": [SOURCE] * len(outputs), "mt": [MT] * len(outputs)}, outputs)
    with torch.inference_mode():
        logs = forced_log_probabilities(model, model.encode(batch), batch.target_BL[:, None])[:, 0]
    return {tuple(o): row[: len(o) + 1].tolist() for o, row in zip(outputs, logs, strict=True)}


@pytest.mark.parametrize("length_penalty", ["none", "average", 0.6])
@pytest.mark.parametrize("penalty", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("members", [1, 2])
def test_a_wide_beam_finds_the_best_of_all_outputs(length_penalty: str | float, penalty: float, members: int) -> None:
    """By the score that the paper's log-linear model has: log P(y) minus the penalty for every 6, which is in neither
    input; log-probabilities are the model's own."""
    model: EncoderDecoder = editor() if members == 1 else Ensemble([editor(2), editor(3)]).eval()
    outputs = every_output(model)

    def score(output: tuple[int, ...]) -> float:
        length = len(output) + 1
        total = sum(outputs[output]) - penalty * output.count(6)
        return total / {"none": 1.0, "average": length}.get(str(length_penalty), ((5 + length) / 6) ** 0.6)

    best = sorted(outputs, key=score, reverse=True)[:4]
    asked = request(0, penalty, [4, 5], beam=64, n_best=4, length_penalty=length_penalty)
    (found,) = run(SlotTable(model, 64), [(asked, SOURCE, MT, 0)])
    assert [tuple(h.ids) for h in found.hypotheses] == best
    assert [h.score for h in found.hypotheses] == pytest.approx([score(output) for output in best])
    assert [h.log_probability for h in found.hypotheses] == pytest.approx([sum(outputs[output]) for output in best])
    assert found.token_log_probabilities is not None
    for logs, output in zip(found.token_log_probabilities, best, strict=True):
        assert logs == pytest.approx(outputs[output][:-1])


def sentences() -> list[tuple[SearchRequest, list[int], list[int], int]]:
    """Thirty sentences, a third without a penalty, admitted at various steps."""
    drawn = random.Random(4)
    waiting = []
    for key in range(30):
        source, mt = ([drawn.randint(4, 6) for _ in range(drawn.randint(1, 9))] for _ in range(2))
        asked = request(
            key,
            drawn.choice([0.0, 0.5, 2.0]),
            [drawn.randint(4, 6)],
            beam=1 + key % 3,
            n_best=1 + key % 2 * (key % 3 > 0),
        )
        waiting.append((asked, source, mt, drawn.randint(0, 12)))
    return [(asked, source, mt, 0 if i == 0 else step) for i, (asked, source, mt, step) in enumerate(waiting)]


@pytest.mark.parametrize("step", ["as it is", "captured"])
def test_the_others_in_a_table_do_not_matter(step: str) -> None:
    """Sentences with and without a penalty, which enter and leave, have the results that each has alone."""
    model = editor()
    chosen: SearchStep = CapturedStep(capture=Recomputed()) if step == "captured" else search_step
    together = run(SlotTable(model, 3, search_step=chosen), sentences())
    for (asked, source, mt, _), found in zip(sentences(), together, strict=True):
        (alone,) = run(SlotTable(model, asked.options.beam), [(asked, source, mt, 0)])
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in found.hypotheses]
        for one, other in zip(alone.hypotheses, found.hypotheses, strict=True):
            assert (one.score, one.log_probability) == pytest.approx((other.score, other.log_probability), abs=1e-9)


def test_the_penalty_is_of_words_not_of_columns() -> None:
    """With a shortlist a word's column is not its id: all 27 outputs of <unk>, 4 and 6 are found, of which 6 costs."""
    candidates = CandidateInput(torch.tensor([[0, 1, 2, 3, 4, 6]]), torch.tensor([6]))

    def search(penalty: float) -> dict[tuple[int, ...], tuple[float, float]]:
        table = SlotTable(editor(), 32)
        batch = replace(collate({"source": [SOURCE], "mt": [MT]}), candidates=candidates)
        options = {"beam": 32, "n_best": 27, "min_length": LONGEST, "length_penalty": "none"}
        table.admit(batch, [request(0, penalty, [4, 5], **options)])
        while not (found := table.pop_finished()):
            table.step()
        return {tuple(h.ids): (h.score, h.log_probability) for h in found[0].hypotheses}

    plain, penalised = search(0.0), search(0.7)
    assert len(plain) == 27 and penalised.keys() == plain.keys()
    for output, (score, log_probability) in penalised.items():
        assert score == pytest.approx(plain[output][0] - 0.7 * output.count(6))
        assert log_probability == pytest.approx(plain[output][1])
