"""SentencePiece's model files: the same ids and texts as that library's, and files that are damaged or hostile."""

import gzip
import io
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from interlinear.errors import BundleError
from interlinear.text.spm import UNIGRAM, Piece, PieceType, SentencePieceModel, check_charsmap
from tests.interlinear.text.test_tokenizer import GERMAN

LINES = [
    *GERMAN,
    "ﬁne ①  ｆｕｌｌ\u3000width ½ Ⅷ",
    "e\u0301te\u0301 naïve  tabs\tand <x> marks ™ …",
    "한국어 カタカナ 我们 赶上",
] * 3


def trained(lines: list[str], **options: object) -> bytes:
    model = io.BytesIO()
    unigram = options.get("model_type") != "bpe"
    options = {"vocab_size": 400, "hard_vocab_limit": not unigram, "minloglevel": 2, **options}
    SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **options)
    return model.getvalue()


MODELS = {
    "unigram": {"byte_fallback": True},
    "bpe": {"byte_fallback": True, "model_type": "bpe"},
    "without bytes": {"character_coverage": 0.98},
    "bpe without bytes": {"vocab_size": 150, "model_type": "bpe", "character_coverage": 0.98},
    "marks": {"user_defined_symbols": ["<x>"], "control_symbols": ["<c>"]},
    "no prefix": {"add_dummy_prefix": False},
    "white space": {"remove_extra_whitespaces": False},
    "identity": {"normalization_rule_name": "identity"},
    "case": {"normalization_rule_name": "nmt_nfkc_cf"},
}


@pytest.fixture(scope="module", params=MODELS)
def content(request) -> bytes:
    return trained(LINES, **MODELS[request.param])


def assert_segmented_alike(model: SentencePieceModel, ids: list[int], theirs: list[int]) -> None:
    """The same ids, or two best segmentations: so small a vocabulary has many pieces of one probability."""
    assert model.decode(ids) == model.decode(theirs)
    if model.kind == UNIGRAM and ids != theirs:
        ours, others = (sum(model.pieces[number].score for number in row) for row in (ids, theirs))
        assert ours == pytest.approx(others, abs=1e-4)
    else:
        assert ids == theirs


def test_ids_and_texts_are_those_of_the_library(content):
    theirs, ours = SentencePieceProcessor(model_proto=content), SentencePieceModel.from_bytes(content)
    for line in [*LINES, "", " ", "  a  b ", "Ωmega 漢字", "<c> <x><x> <s> </s>"]:
        (ids,), expected = ours.encode([line]), theirs.encode(line)
        assert_segmented_alike(ours, ids, expected)
        assert ours.decode(expected) == theirs.decode(expected)


def test_a_written_file_is_the_same_model_to_the_library(content):
    model = SentencePieceModel.from_bytes(content)
    written = model.to_bytes()
    assert SentencePieceModel.from_bytes(written) == model
    before, after = (SentencePieceProcessor(model_proto=proto) for proto in (content, written))
    for line in LINES:
        assert before.encode(line) == after.encode(line)
        assert before.decode(before.encode(line)) == after.decode(after.encode(line))


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize(
    "name", ["multi30k/train.de.gz", pytest.param("btec-zh-en/train.zh.gz", marks=pytest.mark.slow)]
)
def test_real_text_has_the_ids_of_the_library(corpora: Path, kind, name):
    with gzip.open(corpora / name, "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line, _ in zip(file, range(10_000), strict=False)]
    content = trained(lines, model_type=kind, vocab_size=4000, byte_fallback=True)
    theirs, ours = SentencePieceProcessor(model_proto=content), SentencePieceModel.from_bytes(content)
    ids = theirs.encode(lines)
    assert ours.encode(lines) == ids
    assert [ours.decode(row) for row in ids] == theirs.decode(ids)


# Damage


SMALL = SentencePieceModel(
    (Piece("<unk>", 0, PieceType.UNKNOWN), Piece("</s>", 0, PieceType.CONTROL), Piece("▁a", -1), Piece("b", -2))
)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "one unknown piece"),
        (b"\x0a\xff\xff\xff\xff\x0f", "truncated"),
        (b"\xff" * 20, "truncated"),
        (b"\x0b", "unknown type"),
        (b"\x08\x01", "another type"),
        (SMALL.to_bytes()[:-9], "truncated"),
        (SMALL.to_bytes() + b"\x12\x02\x18\x04", "neither a unigram nor a BPE"),
        (SMALL.to_bytes() + b"\x12\x03\xc0\x01\x01", "white space as a suffix"),
        (SMALL.to_bytes() + b"\x1a\x06\x12\x04\x04\x00\x00\x00", "tables"),
    ],
)
def test_a_damaged_file_is_named(content, problem):
    with pytest.raises(BundleError, match=problem) as error:
        SentencePieceModel.from_bytes(content, "vocab.spm")
    assert "vocab.spm" in str(error.value)


@given(st.binary(max_size=200))
@settings(max_examples=200)
def test_no_file_raises_another_error(content):
    with suppress(BundleError):
        SentencePieceModel.from_bytes(content).encode(["a b"])


def test_damaged_tables_are_refused_or_harmless():
    content = SentencePieceModel.from_bytes(trained(LINES)).charsmap
    random = Random(3)
    check_charsmap(content)
    for _ in range(100):
        damaged = bytearray(content)
        for _ in range(random.randint(1, 40)):
            damaged[random.randrange(len(content))] = random.randrange(256)
        try:
            model = SentencePieceModel.from_bytes(SentencePieceModel(SMALL.pieces, charsmap=bytes(damaged)).to_bytes())
        except BundleError:
            continue
        model.encode(LINES)
