"""Suggestions of a service's callers as a data set to train on."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from interlinear.cli.console import progress
from interlinear.errors import DataError, UsageError
from service.store.suggestion_store import StoredSuggestion
from training.data.arrays import write_atomically
from training.data.dataset import Dataset, open_dataset, read_rows
from training.data.dataset.written_description import SIDES, check_extendable, extended_description
from training.data.parallel import ParallelText, SplitCounts, SplitFolder, SplitOptions, make_dataset
from training.data.parallel.languages import LanguagePair, normal_code
from training.data.parallel.near_duplicates import NearDuplicateIndex, normalized_words
from training.data.parallel.pair_file import Pair, TwoFiles
from training.data.parallel.splitting import is_near_duplicate
from training.data.prepare.working_folder import publish, working_folder
from training.data.text_lines import clean_text


def choose_languages(stored: Sequence[StoredSuggestion], given: LanguagePair | None) -> LanguagePair:
    """The pair of languages to export: the given one, else the only one of all suggestions. Raises UsageError."""
    pairs = sorted({(one.suggestion.source, one.suggestion.target) for one in stored})
    if given is None and len(pairs) == 1:
        return pairs[0]
    found = [pair for pair in pairs if given and list(map(normal_code, pair)) == list(map(normal_code, given))]
    if found:
        return found[0]
    there_are = " ".join(",".join(pair) for pair in pairs) or "none"
    if given is None:
        raise UsageError("--languages", f"is missing: there are suggestions for {there_are}", "name one of them")
    raise UsageError(f"--languages {','.join(given)}", f"has no suggestions: there are {there_are}", "name one of them")


def suggested_pairs(stored: Iterable[StoredSuggestion], languages: LanguagePair) -> list[Pair]:
    """The pairs of these languages in the order of their arrival, each once.

    A text of several lines is paired line by line if its translation has as many; else it becomes one line.
    """
    pairs: dict[Pair, None] = {}
    for one in stored:
        suggestion = one.suggestion
        if (suggestion.source, suggestion.target) != languages:
            continue
        sides = [
            [line for line in text.split("\n") if line.strip()] for text in (suggestion.text, suggestion.translation)
        ]
        if len(sides[0]) == len(sides[1]):
            pairs.update(
                ((clean_text(source), clean_text(target)), None) for source, target in zip(*sides, strict=True)
            )
        else:
            pairs[clean_text(suggestion.text), clean_text(suggestion.translation)] = None
    return list(pairs)


def export_alone(pairs: Sequence[Pair], languages: LanguagePair, folder: Path, options: SplitOptions) -> SplitCounts:
    """Make a data set of the pairs alone, with dev and test drawn from them. Raises UsageError, DataError."""
    check_new(folder)
    with TemporaryDirectory() as temporary:
        files = Path(temporary) / f"suggestions.{languages[0]}", Path(temporary) / f"suggestions.{languages[1]}"
        write_pairs(pairs, files)
        text = ParallelText(folder.name, languages, (TwoFiles(*files),))
        return make_dataset(text, SplitFolder(folder), options, "translation", progress)[0]


def export_with(
    name: str, root: Path | None, pairs: Sequence[Pair], languages: LanguagePair, folder: Path
) -> tuple[int, int]:
    """Make a data set of another one, by its name or path, with the pairs added to its train split.

    Pairs that are near-duplicates of another split's are left out. Returns the number of pairs added and left out.
    Raises UsageError, DataError.
    """
    check_new(folder)
    dataset = open_dataset(name, root)
    check_extendable(dataset)
    if list(map(normal_code, languages)) != [normal_code(dataset.languages.get(side, "")) for side in SIDES]:
        has = " to ".join(dataset.languages.get(side, "?") for side in SIDES)
        raise DataError(f"data set '{dataset.name}'", f"is {has}, not {' to '.join(languages)}", "name another --with")
    index = index_held_out(dataset)
    kept = [pair for pair in pairs if not is_near_duplicate(pair, index)]
    if not kept:
        raise DataError("the suggestions", f"are all near-duplicates of dev or test of '{dataset.name}'")
    names = tuple(f"{folder.name}.suggestions.{side}" for side in SIDES)
    with working_folder(folder, resumable=False) as unfinished:
        write_pairs(kept, (unfinished / names[0], unfinished / names[1]))
        content = extended_description(dataset, (names[0], names[1]), f"{len(kept):,} suggestions of a service's users")
        write_description(unfinished / f"{folder.name}.yaml", content)
        publish(unfinished, folder)
    return len(kept), len(pairs) - len(kept)


def index_held_out(dataset: Dataset) -> tuple[NearDuplicateIndex, NearDuplicateIndex]:
    """The sources and targets of all splits but train, to be searched."""
    rows = [
        row.texts
        for split, fields in dataset.splits.items()
        if split != "train" and set(SIDES) <= set(fields)
        for row in read_rows(dataset, split, SIDES)
    ]
    source, target = (NearDuplicateIndex(normalized_words(texts[side]) for texts in rows) for side in (0, 1))
    return source, target


def check_new(folder: Path) -> None:
    """Raises UsageError for a folder that exists."""
    if folder.exists():
        raise UsageError(str(folder), "is there already", "name a new folder")


def write_pairs(pairs: Iterable[Pair], files: tuple[Path, Path]) -> None:
    """Write the sides of the pairs to two files, a line each."""
    with files[0].open("w", encoding="utf-8") as sources, files[1].open("w", encoding="utf-8") as targets:
        for source, target in pairs:
            sources.write(f"{source}\n")
            targets.write(f"{target}\n")


def write_description(path: Path, content: Mapping[str, object]) -> None:
    """Write a description as YAML."""
    text = yaml.safe_dump(dict(content), default_flow_style=None, sort_keys=False, allow_unicode=True, width=120)
    write_atomically(path, text.encode())
