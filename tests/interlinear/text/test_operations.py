"""Edit operations in a vocabulary: texts to scripts of ids and back, and a model that generates them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from interlinear.batch import collate
from interlinear.bundle import Bundle
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from interlinear.text import BYTES, DELETE, KEEP, UNKNOWN, TextConfig, Tokenizer
from interlinear.text.edits import decode_script, encode_script
from tests.interlinear.bundles import untrained

LINES = ["A dog runs fast.", "The small dog (a puppy) sleeps.", "Two men don't run, they sleep!", "A man runs."]
KINDS = {
    "words": {"units": "words", "vocabulary": 60},
    "bpe": {"units": "bpe", "vocabulary": 330},
    "unigram": {"units": "unigram", "vocabulary": 330},
    "tokenised words": {"units": "words", "vocabulary": 60, "tokenised": True, "language": "en"},
    "lower-case bpe": {"units": "bpe", "vocabulary": 330, "lowercase": True},
}
TOKENIZERS = {
    kind: Tokenizer.train(LINES * 3, TextConfig(**settings, operations_on="mt")) for kind, settings in KINDS.items()
}
each = pytest.mark.parametrize("kind", KINDS)
TEXTS = st.lists(
    st.sampled_from(["A", "a", "dog", "runs", "fast", ".", ",", "(a", "puppy)", "<keep>", "<delete>", "zebra", "é▁"])
).map(" ".join)


def piece(tokenizer: Tokenizer, word: str) -> int:
    (found,) = tokenizer.encode(word).ids
    return found


def test_a_script_by_hand():
    tokenizer = TOKENIZERS["tokenised words"]
    script = encode_script(tokenizer, "The dog runs fast.", "The small dog fast.")
    assert script.ids == [KEEP, piece(tokenizer, "small"), KEEP, DELETE, KEEP]
    assert script.offsets == [(0, 3), (4, 9), (10, 13), (13, 13), (14, 19)]
    written = decode_script(tokenizer, script.ids, "The dog runs fast.", {})
    assert (written.text, written.offsets) == ("The small dog fast.", script.offsets)


@each
@given(TEXTS, TEXTS)
def test_a_script_produces_the_target(kind, mt, target):
    tokenizer = TOKENIZERS[kind]
    script = encode_script(tokenizer, mt, target)
    ids = tokenizer.encode(target)
    if not ids.ids:
        assert script.ids == []
        return
    inserted = [step for step, made in enumerate(script.ids) if made == UNKNOWN]
    unknown = {step: target[slice(*script.offsets[step])] for step in inserted}
    written = decode_script(tokenizer, script.ids, mt, unknown)
    stand_ins = {i: target[slice(*ids.offsets[i])] for i, made in enumerate(ids.ids) if made == UNKNOWN}
    assert written.text == tokenizer.decode(ids.ids, stand_ins)
    assert sum(made in (KEEP, DELETE) for made in script.ids) == len(tokenizer.encode(mt).ids)


@each
@given(TEXTS)
def test_text_is_never_encoded_as_a_symbol(kind, text):
    tokenizer = TOKENIZERS[kind]
    assert not {KEEP, DELETE} & set(tokenizer.encode(text).ids)
    assert not {KEEP, DELETE} & set(tokenizer.encode(text, raw=True).ids)
    assert tokenizer.decode([KEEP, *tokenizer.encode(text).ids, DELETE]) == tokenizer.decode(tokenizer.encode(text).ids)


def test_unknown_words_are_kept_as_written_and_in_order():
    tokenizer = TOKENIZERS["words"]
    assert encode_script(tokenizer, "A zebra runs.", "A zebra runs fast.").ids[1] == KEEP
    assert encode_script(tokenizer, "A zebra runs.", "A quokka runs.").ids[1:3] == [DELETE, UNKNOWN]
    assert (
        decode_script(tokenizer, [KEEP, KEEP, piece(tokenizer, "fast")], "A zebra runs.", {}).text
        == "A zebra fast runs."
    )
    assert decode_script(tokenizer, [KEEP, DELETE, UNKNOWN], "A zebra runs.", {2: "quokka"}).text == "A quokka runs."


@each
@given(st.lists(st.integers(0, 40), max_size=12), TEXTS)
def test_any_model_output_can_be_decoded(kind, script, mt):
    tokenizer = TOKENIZERS[kind]
    script = [one % tokenizer.size for one in script]
    for raw in (False, True):
        written = decode_script(tokenizer, script, mt, {}, raw)
        assert len(written.offsets) == len(script)
        assert all(0 <= start <= end <= len(written.text) for start, end in written.offsets)


def test_a_vocabulary_keeps_its_symbols():
    for tokenizer in TOKENIZERS.values():
        again = Tokenizer.from_json(tokenizer.to_json())
        assert again.to_json() == tokenizer.to_json() and again.config.operations_on == "mt"
        assert again.encode(LINES[1]) == tokenizer.encode(LINES[1])
    plain = Tokenizer.train(LINES * 3, TextConfig(units="bpe", vocabulary=330))
    assert plain.size == TOKENIZERS["bpe"].size and plain.decode(plain.encode("é dog").ids) == "é dog"
    assert TOKENIZERS["bpe"].decode(TOKENIZERS["bpe"].encode("é dog").ids) == "é dog"
    with pytest.raises(ValidationError, match="needs at least 263"):
        TextConfig(units="bpe", vocabulary=4 + len(BYTES) + 2, operations_on="mt")


# A model that generates edit operations.


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Bundle[Model]:
    tokenizers = {"source": TOKENIZERS["words"], "mt": TOKENIZERS["words"], "target": TOKENIZERS["words"]}
    folder = tmp_path_factory.mktemp("models") / "operations"
    card = {"task": "post-edit", "languages": {"source": "de", "mt": "en", "target": "en"}}
    bundle = untrained(folder, tokenizers, 1, card, combination="flat", cell="gru", initialization_scale=1.5)
    assert "writes: operations that keep, delete and insert pieces of 'mt'" in (folder / "README.md").read_text()
    return bundle


def test_generated_operations_are_applied_to_the_input(bundle):
    """The weights are such that the model keeps some words."""
    options = SearchOptions(beam=3, n_best=3, max_length=8)
    mts = ["A zebra sleeps.", "The dog (a quokka) runs!", ""]
    requests = [
        Request({"source": "A dog runs.", "mt": mt} if mt else {"source": "A dog runs."}, options, True) for mt in mts
    ]
    ids = []
    for mt, answer in zip(mts, SequenceGenerator(bundle).generate(requests), strict=True):
        assert not isinstance(answer, Exception)
        for candidate in answer.candidates:
            assert candidate.text == decode_script(TOKENIZERS["words"], candidate.ids, mt, {}, raw=True).text
            ids += candidate.ids
        explanation = answer.explanation
        assert explanation is not None and explanation.sources is not None
        text = answer.candidates[0].text
        assert [text[word.start : word.end] for word in explanation.target] == [w.text for w in explanation.target]
        said = len(explanation.target)
        assert all(
            len(attention_weights.matrices["attention"]) == said for attention_weights in explanation.sources.values()
        )
        assert list(explanation.sources) == (["source", "mt"] if mt else ["source"])
    assert {KEEP, DELETE} & set(ids)


def test_forced_decoding_uses_the_operations(bundle):
    """A man sleeps fast. / A small man sleeps.: keep, small, keep, keep, delete, keep; row 1 has the attention of
    `small`."""
    texts, output = {"source": "The dog runs.", "mt": "A man sleeps fast."}, "A small man sleeps."
    tokenizer = TOKENIZERS["words"]
    script = encode_script(tokenizer, texts["mt"], output, raw=True)
    assert script.ids == [KEEP, piece(tokenizer, "small"), KEEP, KEEP, DELETE, KEEP]
    batch = collate({name: [tokenizer.encode(text).ids] for name, text in texts.items()}, [script.ids])
    with torch.inference_mode():
        attention_weights = bundle.model.forced_attention(bundle.model.encode(batch), batch.target_BL[:, None])
    (forced,) = SequenceGenerator(bundle).align([(texts, output)])
    assert [word.text for word in forced.target] == ["A", "small", "man", "sleeps", "."]
    for row, step in enumerate([0, 1, 2, 3, 5]):
        expected = attention_weights.weights["mt", "attention"][0, 0, step, :5].tolist()
        assert forced.sources["mt"].matrices["attention"][row] == pytest.approx(expected, abs=1e-4)
