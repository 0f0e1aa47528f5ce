"""The grammar of the demo world still writes the text that ships: what its rules do is in that text. And what a model
can learn from the text, as docs/datasets.md says it."""

import gzip
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tools.demo_world.corpus import CorpusPlan, GeneratedPair, demo_corpus, lowercase_words
from tools.demo_world.headlines import HEADLINES, headline_corpus
from tools.demo_world.postedit import postedit_corpus
from tools.demo_world.postedit import rules as postedit_rules
from tools.demo_world.scenes import rules as scene_rules
from tools.demo_world.scenes import scene_corpus
from training.yaml_files import resource_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_it_writes_the_text_that_ships_for_any_hash_seed(tmp_path: Path):
    command = [sys.executable, "-m", "tools.demo_world", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "11"}, check=True)
    corpora = resource_folder("corpora")
    shipped = {path.relative_to(corpora): path for path in corpora.glob("demo*/*")}
    written = {path.relative_to(tmp_path): path for path in tmp_path.glob("*/*")}
    assert len(shipped) == 40 and set(shipped) == set(written)
    for name, path in shipped.items():  # the compressed bytes depend on zlib
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(written[name].read_bytes()), name


@pytest.mark.parametrize(
    "corpus",
    [lambda: demo_corpus(CorpusPlan(train=4_000, dev=100, test=200)), lambda: headline_corpus(HEADLINES)],
    ids=["demo", "demo-headline"],
)
def test_heldout_words_are_known_but_half_of_the_pairs_are_new_combinations(corpus):
    splits = corpus()
    everything: list[GeneratedPair] = [pair for split in splits.values() for pair in split]
    for side in (0, 1):
        assert len({pair.sides[side] for pair in everything}) == len(everything)
    counts = Counter(word for pair in splits["train"] for word in lowercase_words(pair))
    combined = {combination for pair in splits["train"] for combination in pair.combinations}
    for split in ("dev", "test"):
        assert all(counts[word] >= 5 for pair in splits[split] for word in lowercase_words(pair))
        new = [pair for pair in splits[split] if not combined >= pair.combinations]
        assert len(new) >= len(splits[split]) / 2


def test_the_text_never_reveals_the_reading():
    """In each split, with and without images, every English sentence occurs with both readings."""
    for rows in scene_corpus().values():
        readings = defaultdict(list)
        for scene in rows:
            if scene.reading:
                readings[scene.en, scene.image is None].append(scene.reading.reading)
                assert words(scene.de).count(scene.reading.form.lower()) == 1
        for (english, _), both in readings.items():
            (word,) = set(words(english)) & set(scene_rules().ambiguous)
            assert sorted(both) == sorted(de for de, _, _ in scene_rules().ambiguous[word]), english


def test_the_gold_records_every_error():
    """The target with its errors applied again, from the gold data alone, is the machine translation."""
    plan = CorpusPlan(train=2_000, dev=100, test=200)
    edits = [edit for split in postedit_corpus(plan).values() for edit in split]
    for edit in edits:
        slots = [[word.lower()] for word in edit.target]
        for error in edit.errors:
            assert [word for place in error.at for word in slots[place]] == error.right.lower().split()
            for place in error.at:
                slots[place] = []
            slots[error.at[0]] = error.wrong.lower().split()
        assert [word for slot in slots for word in slot] == [word.lower() for word in edit.mt], edit
        assert (edit.mt == edit.target) == (not edit.errors) and len(edit.errors) <= 3
    counts = Counter(error.kind for edit in edits for error in edit.errors)
    assert set(counts) == set(postedit_rules().corruptions) and max(counts.values()) < 0.25 * counts.total()
