"""A learned aligner is kept in a folder, whole or not at all, and its record says what it is."""

from pathlib import Path

import numpy as np
import pytest

from interlinear.alignment.hmm import WordAligner
from interlinear.alignment.stored_aligner import FILE_NAME, is_word_aligner, load_aligner, read_record, save_aligner
from interlinear.errors import DataError
from tests.interlinear.alignment.test_hmm import WORDS, dictionary_pairs


@pytest.fixture(scope="module")
def aligner() -> WordAligner:
    pairs, _ = dictionary_pairs(300, seed=1)
    return WordAligner.learn([*pairs, ([], ["nothing"])])[0]


def test_a_kept_aligner_aligns_other_pairs(aligner, tmp_path):
    others, gold = dictionary_pairs(50, seed=2)
    others.append((["1998", "unbekannt"], ["1998", "strange"]))
    save_aligner(aligner, tmp_path / "new" / "aligner", tokenised=True)
    loaded = list(load_aligner(tmp_path / "new" / "aligner").align(others))
    for found, kept in zip(aligner.align(others), loaded, strict=True):
        assert found is not None and kept is not None
        np.testing.assert_allclose(found.forward_JI, kept.forward_JI, atol=0.02)
    wrong = sum(len({*found.agreed()} ^ true) for found, true in zip(loaded, gold, strict=False) if found)
    assert wrong <= 0.05 * sum(map(len, gold))
    assert loaded[-1] is not None and (0, 0) in loaded[-1].agreed()  # equal words


def test_its_record_says_what_it_has_learned_from(aligner, tmp_path):
    save_aligner(aligner, tmp_path / "aligner", tokenised=True)
    record = read_record(tmp_path / "aligner")
    assert (record.pairs, record.tokenised) == (300, True)  # a pair with an empty side teaches nothing
    assert record.words == {"source": len(WORDS), "target": len(WORDS) + 1}  # and "nothing"
    assert len(WORDS) <= record.word_pairs <= len(WORDS) ** 2
    assert record.size == (tmp_path / "aligner" / FILE_NAME).stat().st_size
    assert load_aligner(tmp_path / "aligner").pairs == 300


def test_an_interrupted_save_leaves_nothing(aligner, tmp_path, monkeypatch):
    """The disk is full after half of the file."""

    def half(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("interlinear.alignment.stored_aligner.save_file", half)
    with pytest.raises(OSError, match="No space left"):
        save_aligner(aligner, tmp_path / "aligner", tokenised=False)
    assert list(tmp_path.iterdir()) == [] and not is_word_aligner(tmp_path / "aligner")


def test_a_folder_with_files_is_not_replaced(aligner, tmp_path):
    (tmp_path / "aligner").mkdir()
    (tmp_path / "aligner" / "mine").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        save_aligner(aligner, tmp_path / "aligner", tokenised=False)
    assert [path.name for path in tmp_path.rglob("*")] == ["aligner", "mine"]


@pytest.mark.parametrize("read", [load_aligner, read_record])
def test_a_damaged_aligner_is_refused(aligner, tmp_path, read):
    save_aligner(aligner, tmp_path / "aligner", tokenised=False)
    file = tmp_path / "aligner" / FILE_NAME
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read(tmp_path / "aligner")
