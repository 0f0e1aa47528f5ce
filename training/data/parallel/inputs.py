"""Finds parallel text in the user's input: two files, a TSV, a TMX, or a folder of them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from interlinear.errors import DataError, UsageError
from training.data.parallel import tmx, tsv
from training.data.parallel.languages import CODE, LanguagePair, normal_code, recognized_code
from training.data.parallel.pair_file import Pair, PairFile, TwoFiles

UNINFORMATIVE = re.compile(r"(\.txt)?(\.gz|\.zst)?$", re.IGNORECASE)  # endings of a file's name
LANGUAGES_REMEDY = "name them, the source first: --languages de,en"


@dataclass(frozen=True)
class ParallelText:
    """Parallel text to make a data set of. `name`: the name for it; `ignored`: files of the folder that are no parallel
    text, by name."""

    name: str
    languages: LanguagePair
    files: tuple[PairFile, ...]
    ignored: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(chain.from_iterable(file.paths for file in self.files))

    def __str__(self) -> str:
        names = [path.name for path in self.paths]
        return " and ".join(names) if len(names) < 3 else f"{names[0]} and {len(names) - 1:,} further files"

    def pairs(self) -> Iterator[Pair]:
        """The pairs of all files in order; a missing side is an empty text. Raises DataError."""
        return chain.from_iterable(file.pairs() for file in self.files)


def parse_languages(text: str) -> LanguagePair:
    """Parse `de,en`. Raises UsageError."""
    codes = [code.strip() for code in text.split(",")]
    if len(codes) != 2 or not all(map(CODE.fullmatch, codes)):
        raise UsageError(f"--languages {text}", "is not two language codes", "write the source first: de,en")
    return codes[0].replace("_", "-"), codes[1].replace("_", "-")


def find_parallel_text(paths: Sequence[Path], languages: LanguagePair | None) -> ParallelText:
    """The parallel text in two files, or in a file or folder. `languages`: of source and target; None: inferred from
    file names, a TSV's header or a TMX. Raises UsageError, DataError."""
    for path in paths:
        if not path.exists():
            raise UsageError(str(path), "there is no such file or folder", "correct its path")
        if not path.is_file() and not path.is_dir():
            raise UsageError(str(path), "is a pipe, and the text is read twice", "write it to a file, and name that")
    path, *target = paths
    if target:
        return _two_files(path, target[0], languages)
    return _folder(path, languages) if path.is_dir() else _one_file(path, languages)


def _two_files(source: Path, target: Path, languages: LanguagePair | None) -> ParallelText:
    suffix = _text_suffix(source)
    if languages is None:
        codes = recognized_code(suffix), recognized_code(_text_suffix(target))
        if codes[0] is None or codes[1] is None or codes[0] == codes[1]:
            raise UsageError(f"{source} and {target}", "their names do not say their languages", LANGUAGES_REMEDY)
        languages = codes[0], codes[1]
    stem = _text_name(source).removesuffix(f".{suffix}")
    return ParallelText(_dataset_name(stem, languages), languages, (TwoFiles(source, target),))


def _one_file(path: Path, languages: LanguagePair | None) -> ParallelText:
    kind = _text_suffix(path).lower()
    if kind not in ("tsv", "tmx"):
        raise UsageError(
            str(path), "is neither a .tsv, a .tmx nor a folder", "of two text files, name both: --source and --target"
        )
    module = tsv if kind == "tsv" else tmx
    languages = languages or module.infer_languages(path)
    if languages is None:
        what = "has no header with language codes" if kind == "tsv" else "has more or fewer languages than two"
        raise UsageError(str(path), what, LANGUAGES_REMEDY)
    name = _dataset_name(_text_name(path)[: -len(kind) - 1], languages)
    return ParallelText(name, languages, (_single(path, languages),))


def _folder(folder: Path, languages: LanguagePair | None) -> ParallelText:
    """All text in a folder, by file name: each TSV and TMX, and each NAME.de with NAME.en."""
    if languages is None:
        raise UsageError(str(folder), "a folder does not say its languages", LANGUAGES_REMEDY)
    paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    source_code, target_code = map(normal_code, languages)
    sides: dict[str, dict[str, Path]] = {source_code: {}, target_code: {}}
    found: dict[str, PairFile] = {}
    ignored = []
    for path in paths:
        suffix = normal_code(_text_suffix(path))
        if suffix in ("tsv", "tmx"):
            found[path.name] = _single(path, languages)
        elif suffix in sides:
            stem = _text_name(path)[: -len(suffix) - 1]
            if stem in sides[suffix]:
                raise DataError(str(path), f"is beside {sides[suffix][stem].name}: one text twice?", "move one away")
            sides[suffix][stem] = path
        else:
            ignored.append(path.name)
    for stem in sides[source_code].keys() | sides[target_code].keys():
        source, target = sides[source_code].get(stem), sides[target_code].get(stem)
        if source is None or target is None:
            alone, missing = (source, target_code) if source else (target, source_code)
            raise DataError(str(alone), f"there is no {stem}.{missing} beside it", "bring it, or move the other away")
        found[source.name] = TwoFiles(source, target)
    if not found:
        raise DataError(
            str(folder),
            f"has no .tsv, no .tmx, and no pair of files .{languages[0]} and .{languages[1]}",
            "name a folder that has some",
        )
    files = tuple(found[name] for name in sorted(found))
    return ParallelText(_dataset_name(folder.resolve().name, languages), languages, files, tuple(ignored))


def _single(path: Path, languages: LanguagePair) -> PairFile:
    return tsv.TsvFile(path, languages) if _text_suffix(path).lower() == "tsv" else tmx.TmxFile(path, languages)


def _text_name(path: Path) -> str:
    """A file's name without endings that say nothing of its content: `a.de` of `a.de.txt.gz`."""
    return UNINFORMATIVE.sub("", path.name)


def _text_suffix(path: Path) -> str:
    """The last suffix of the name without those endings: `de` of `a.de.txt.gz`; empty if there is none."""
    return _text_name(path).rpartition(".")[2] if "." in _text_name(path) else ""


def _dataset_name(stem: str, languages: LanguagePair) -> str:
    """A name for the data set, which is also a name for a run and for files."""
    name = re.sub(r"[^\w.@+-]+", "-", stem).strip("-.") or "text"
    return f"{name}-{languages[0]}-{languages[1]}"
