"""Training lines of single words and short lists, so that a model does not make a sentence of a word.

They come from a lexicon that our aligner learns from the training pairs themselves: pairs of words, and names and other
words that stay unchanged. Bilingual dictionaries as further training lines: Arthur et al. 2016, section 2; Kothur et
al. 2018.
"""

import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path

from interlinear.alignment.hmm import WordAligner
from interlinear.alignment.links import Link
from interlinear.alignment.pair_batches import normalize_words, split_words
from interlinear.errors import DataError
from interlinear.text.casing import MOSTLY, capital_first, has_case
from training.data.arrays import write_atomically
from training.data.dataset import Dataset, read_rows
from training.data.dataset.description import FieldFiles, TextFile
from training.data.formats import count_lines

LEARNED_PAIRS = 50_000  # training pairs, evenly spaced, that the lexicon is learned from
LEAST, PROBABLE = 2, 0.4  # links of a pair of words, and their share of the source word's occurrences
LISTS, LONGEST_LIST = 0.4, 5  # the share of lines with several words, and the words of the longest
NAMES = 0.3  # the share of the lists with only words that stay unchanged
SEED = 1
COMMAS = {"zh": "，", "ja": "、"}

Words = Sequence[str]
WordPair = tuple[str, str]


def with_lexicon_lines(dataset: Dataset, source: str, share: float, folder: Path) -> Dataset:
    """The data set with lines of words and lists appended to train: `share` of the number of train's lines.

    `source`: the name of the source text. The lines are written to `folder` once, and read from there later. Raises
    DataError for texts that are cut into subwords, and for pairs without words that are translated one by one.
    """
    fields = [dataset.field("train", name) for name in (source, "target")]
    if any(field.segmentation for field in fields):
        raise DataError(
            f"data set '{dataset.name}'",
            "its texts are cut into subwords, and a lexicon has words",
            "set training.lexicon to 0, or use a data set of whole words",
        )
    constants = (LEARNED_PAIRS, LEAST, PROBABLE, LISTS, LONGEST_LIST, NAMES, SEED, share)
    key = hashlib.sha256(f"{dataset.fingerprint('train', [source, 'target'])} {constants}".encode()).hexdigest()
    files = [(folder / f"{dataset.name}-lexicon-{key[:16]}.{side}").resolve() for side in ("source", "target")]
    if not all(file.is_file() for file in files):
        rows = sum(count_lines(part).lines for part in fields[0].parts)
        step = -(-rows // LEARNED_PAIRS)
        texts = [row.texts for row in islice(read_rows(dataset, "train", [source, "target"]), 0, None, step)]
        columns = [
            [[text[start:end] for start, end in split_words(text, field.tokenised)] for text in column]
            for field, column in zip(fields, zip(*texts, strict=True), strict=True)
        ]
        entries = lexicon(list(zip(*columns, strict=True)))
        if not entries:
            raise DataError(
                f"data set '{dataset.name}'", "no word has a translation of its own", "set training.lexicon to 0"
            )
        lines = list(islice(lexicon_lines(entries), max(1, round(share * rows))))
        print(f"train: {len(lines):,} lines of words, from a lexicon of {len(entries):,} words", file=sys.stderr)
        folder.mkdir(parents=True, exist_ok=True)
        for side, (field, column, file) in enumerate(zip(fields, columns, files, strict=True)):
            comma = COMMAS.get((field.language or "").partition("-")[0], ",")
            separator = f" {comma} " if field.tokenised else comma if comma != "," else ", "
            first = capital_first if begins_with_capitals(column) else str
            text = "".join(first(separator.join(line[side])) + "\n" for line in lines)
            write_atomically(file, text.encode())
    return extended(dataset, {source: files[0], "target": files[1]})


def lexicon(pairs: Sequence[tuple[Words, Words]]) -> list[WordPair]:
    """The source words with their most probable translation, both as they are inside sentences, the most frequent
    first.

    A pair of words counts where it is linked one to one; a word that is its own translation is trusted at once.
    """
    _, aligned = WordAligner.learn([(normalize_words(source), normalize_words(target)) for source, target in pairs])
    linked, occurrences = Counter[WordPair](), Counter[str]()
    for (source, target), found in zip(pairs, aligned, strict=True):
        occurrences.update(source[1:])
        links = one_to_one(found.agreed()) if found else []
        linked.update((source[i], target[j]) for i, j in links if i and j)
    entries: dict[str, str] = {}
    for (source, target), count in sorted(linked.items(), key=lambda item: (-item[1], item[0])):
        certain = count >= (1 if source == target else LEAST) and count >= PROBABLE * occurrences[source]
        if certain and source not in entries and source[0].isalpha() and target[0].isalpha():
            entries[source] = target
    return list(entries.items())


def one_to_one(links: Sequence[Link]) -> list[Link]:
    """The links of words that have no other."""
    sources, targets = (Counter(side) for side in zip(*links, strict=True)) if links else (Counter(), Counter())
    return [(i, j) for i, j in links if sources[i] == targets[j] == 1]


def lexicon_lines(entries: Sequence[WordPair]) -> Iterator[tuple[Words, Words]]:
    """Lines of words and lists of words without end, source and target."""
    generator, single = random.Random(SEED), cycle(entries)
    names = [pair for pair in entries if pair[0] == pair[1]]
    while True:
        if generator.random() < LISTS:
            some = names if names and generator.random() < NAMES else entries
            chosen = generator.choices(some, k=generator.randint(2, LONGEST_LIST))
        else:
            chosen = [next(single)]
        source, target = zip(*chosen, strict=True)
        yield source, target


def begins_with_capitals(lines: Sequence[Words]) -> bool:
    """Whether the lines of a text begin with a capital letter."""
    first = [words[0][0] for words in lines if words and has_case(words[0][0])]
    return bool(first) and sum(map(str.isupper, first)) >= MOSTLY * len(first)


def extended(dataset: Dataset, files: dict[str, Path]) -> Dataset:
    """The data set with the lines of further files behind the texts of train."""
    train = dict(dataset.splits["train"])
    for name, file in files.items():
        field = train[name]
        assert isinstance(field, FieldFiles)
        train[name] = field.model_copy(update={"files": (*field.files, TextFile(file=str(file)))})
    return dataset.model_copy(update={"splits": {**dataset.splits, "train": train}})
