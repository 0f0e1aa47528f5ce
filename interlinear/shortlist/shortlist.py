"""A lexical shortlist: for every source token the target tokens that may translate it; and its file.

Search then computes the output layer for a few hundred tokens instead of the whole vocabulary (Jean et al. 2015,
section 3.3; L'Hostis et al. 2016, "Vocabulary Selection Strategies for Neural Machine Translation"). "Words" here are
tokens: entries of a vocabulary.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from interlinear.batch import TARGET, CandidateInput
from interlinear.errors import BundleError
from interlinear.text import PAD, Tokenizer

FORMAT = 1
DESCRIPTION = "shortlist"  # key of the file's metadata: one, since safetensors writes several in any order
COMMON, ENDS, WORDS = "common", "ends", "words"  # names of the file's arrays, prefixed by the source's name


@dataclass(frozen=True, eq=False)
class WordLists:
    """For every token of one source a list of target tokens: words[ends[i - 1] : ends[i]] for token i."""

    ends: np.ndarray  # int64, one for each token
    words: np.ndarray  # int32

    def of(self, token: int) -> np.ndarray:
        """The target tokens of a source token."""
        return self.words[self.ends[token - 1] if token else 0 : self.ends[token]]

    @classmethod
    def join(cls, lists: Sequence[np.ndarray]) -> "WordLists":
        """From one list for each source token."""
        ends = np.cumsum([len(words) for words in lists], dtype=np.int64)
        return cls(ends, np.concatenate([np.empty(0, np.int32), *lists]).astype(np.int32))


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The target tokens of every source token, by source, and the common tokens, which every sentence may use.

    Common tokens include all special symbols. `tokenizers`: the SHA-256 of every source's tokenizer and the target's,
    to which the ids belong.
    """

    common: np.ndarray  # int32, ascending
    lists: Mapping[str, WordLists]
    tokenizers: Mapping[str, str]

    def words(self, sources: Mapping[str, Sequence[int]]) -> np.ndarray:
        """The tokens for one sentence, ascending, each once; `sources` are its token ids without END, by source."""
        chosen = [self.lists[name].of(token) for name, ids in sources.items() for token in set(ids)]
        return np.unique(np.concatenate([self.common, *chosen]))

    def candidates(
        self, rows: Sequence[Mapping[str, Sequence[int]]], added: Sequence[Sequence[int]] | None = None
    ) -> CandidateInput:
        """The tokens for every sentence of a batch, which depend on its sources alone, and the tokens that are added to
        each."""
        words = [self.words(sources) for sources in rows]
        if added is not None:
            words = [np.union1d(own, np.array(more, own.dtype)) for own, more in zip(words, added, strict=True)]
        lengths = tuple(len(own) for own in words)
        padded_BC = np.full((len(words), max(lengths, default=0)), PAD, np.int64)
        for row, own in enumerate(words):
            padded_BC[row, : len(own)] = own
        return CandidateInput(torch.from_numpy(padded_BC), torch.tensor(lengths), lengths)

    @classmethod
    def union(cls, shortlists: Sequence["Shortlist"]) -> "Shortlist":
        """The union of several shortlists of the same vocabularies."""
        first, *others = shortlists
        if not others:
            return first
        lists = {
            name: WordLists.join(
                [
                    np.unique(np.concatenate([each.lists[name].of(token) for each in shortlists]))
                    for token in range(len(own.ends))
                ]
            )
            for name, own in first.lists.items()
        }
        common = np.unique(np.concatenate([each.common for each in shortlists]))
        return cls(common, lists, first.tokenizers)

    def save(self, path: Path) -> None:
        """Write the shortlist to a file in the format safetensors."""
        arrays = {COMMON: self.common}
        for name, own in self.lists.items():
            arrays |= {f"{name}.{ENDS}": own.ends, f"{name}.{WORDS}": own.words}
        description = {"format": FORMAT, "tokenizers": dict(self.tokenizers)}
        save_file(arrays, path, {DESCRIPTION: json.dumps(description, sort_keys=True)})

    @classmethod
    def load(cls, path: Path, tokenizers: Mapping[str, Tokenizer]) -> "Shortlist":
        """Read a file written by `save`; `tokenizers`: of the text sources and the target.

        Raises BundleError for a file that is no shortlist, or of another vocabulary.
        """
        try:
            with safe_open(path, "numpy") as file:
                description = json.loads((file.metadata() or {})[DESCRIPTION])
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                version, made_for = description["format"], dict(description["tokenizers"])
        except (SafetensorError, OSError, ValueError, TypeError) as error:
            raise BundleError(str(path), f"the file cannot be read ({error})", REMAKE) from None
        except KeyError as error:
            raise BundleError(str(path), f"the file is no shortlist (it has no {error})", REMAKE) from None
        if version != FORMAT:
            raise BundleError(str(path), f"the shortlist has format {version}, and {FORMAT} is known", REMAKE)
        expected = fingerprints(tokenizers)
        if other := sorted(name for name in {**made_for, **expected} if made_for.get(name) != expected.get(name)):
            raise BundleError(str(path), f"the shortlist is of another vocabulary ({', '.join(other)})", REMAKE)
        try:
            lists = {
                name: WordLists(arrays[f"{name}.{ENDS}"], arrays[f"{name}.{WORDS}"])
                for name in tokenizers
                if name != TARGET
            }
            shortlist = cls(arrays[COMMON], lists, made_for)
        except KeyError as error:
            raise BundleError(str(path), f"the shortlist lacks the array {error}", REMAKE) from None
        shortlist.check(str(path), tokenizers)
        return shortlist

    def check(self, where: str, tokenizers: Mapping[str, Tokenizer]) -> None:
        """Raises BundleError, located at `where`, for ids outside the vocabularies or without the special symbols."""
        size, special = tokenizers[TARGET].size, len(tokenizers[TARGET].config.reserved)
        arrays = [self.common, *(own.words for own in self.lists.values())]
        within = all(words.ndim == 1 and ((words >= 0) & (words < size)).all() for words in arrays)
        listed = all(
            own.ends.shape == (tokenizers[name].size,)
            and (np.diff(own.ends, prepend=0) >= 0).all()
            and own.ends[-1] == len(own.words)
            for name, own in self.lists.items()
        )
        if not (within and listed and np.array_equal(self.common[:special], np.arange(special))):
            raise BundleError(where, "the shortlist has ids that its vocabularies do not have", REMAKE)


REMAKE = "make it again with `interlinear shortlist`"


def fingerprints(tokenizers: Mapping[str, Tokenizer]) -> dict[str, str]:
    """The SHA-256 of every tokenizer, by the name of its field."""
    return {name: tokenizer.fingerprint() for name, tokenizer in tokenizers.items()}


@dataclass(frozen=True)
class Coverage:
    """Counts over sentences: candidate tokens, tokens of the outputs, and output tokens that are candidates."""

    sentences: int = 0
    candidates: int = 0
    tokens: int = 0
    covered: int = 0

    @property
    def share(self) -> float:
        """The share of the outputs' tokens that are candidates of their sentence; 1 if there are none."""
        return self.covered / self.tokens if self.tokens else 1.0

    @property
    def candidates_each(self) -> float:
        """Candidate tokens of a sentence, on average."""
        return self.candidates / max(1, self.sentences)


def coverage(shortlist: Shortlist, pairs: Iterable[tuple[Mapping[str, Sequence[int]], Sequence[int]]]) -> Coverage:
    """The coverage of outputs, given as token ids without END beside their sources'."""
    sentences = candidates = tokens = covered = 0
    for sources, output in pairs:
        words = shortlist.words(sources)
        sentences, candidates, tokens = sentences + 1, candidates + len(words), tokens + len(output)
        covered += int(np.isin(output, words).sum())
    return Coverage(sentences, candidates, tokens, covered)
