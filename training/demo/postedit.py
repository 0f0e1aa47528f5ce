"""Post-editing in the demo world: English, a German translation with mistakes, and the right one.

The right translations are sentences of the demo grammar; the mistakes are the corruptions of postedit.yaml, each at
words that no other has touched. A dropped or a wrong word can be repaired from the source alone; much else from the
translation.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from training.demo.choices import Choices
from training.demo.corpus import CorpusPlan, Split, split_corpus, words_of
from training.demo.lexicon import Grammar, Lexicon, Record, grammar, lexicon, read
from training.demo.pairs import Pair
from training.demo.sentences import PUNCTUATION, SentenceGenerator, written
from training.demo.wordforms import Form, WordClass, WordForms

How = Literal["form", "other", "source", "double", "drop", "unprefixed", "english", "swapped"]
POSTEDIT = CorpusPlan(train=6_000, dev=400, test=400)
ATTEMPTS = 30  # kinds that are tried where a sentence has little room left


class Corruption(Record):
    weight: int
    how: How
    of: list[WordClass]


class PostEditRules(Record):
    """What postedit.yaml says."""

    nouns: int
    verbs: int
    adjectives: int
    words: tuple[int, int]
    clauses: int
    right: float
    number: dict[int, int]
    corruptions: dict[str, Corruption]


@lru_cache(maxsize=1)
def rules() -> PostEditRules:
    return PostEditRules.model_validate(read("postedit.yaml"))


@dataclass(frozen=True)
class Mistake:
    """A corruption as it was done: its kind, the places of the right words in the target, and these words and those."""

    kind: str
    at: tuple[int, ...]
    right: str
    wrong: str


@dataclass(frozen=True)
class Edit:
    """A row: English, a translation with these mistakes, the right one."""

    source: tuple[str, ...]
    mt: tuple[str, ...]
    target: tuple[str, ...]
    mistakes: tuple[Mistake, ...]

    def line(self) -> str:
        return json.dumps([vars(mistake) for mistake in self.mistakes], ensure_ascii=False)


@lru_cache(maxsize=1)
def restricted_grammar() -> tuple[Lexicon, Grammar]:
    """The words and rules that postedit.yaml leaves of the demo world."""
    asked, whole, rule = rules(), lexicon(), grammar()
    said = whole.model_dump()
    verbs = {name: dict(list(frame.items())[: asked.verbs]) for name, frame in said["verbs"].items()}
    adjectives = dict(list(said["adjectives"].items())[: asked.adjectives])
    named = set(strings([verbs, adjectives, said["kinds"], rule.model_dump()])) | {"Freund", "Freundin"}
    nouns = {
        kind: {de: facts for place, (de, facts) in enumerate(group.items()) if place < asked.nouns or de in named}
        for kind, group in said["nouns"].items()
    }
    sentences = [each for each in rule.sentences if len(each.clauses) <= asked.clauses]
    return (
        Lexicon.model_validate(said | {"nouns": nouns, "verbs": verbs, "adjectives": adjectives}),
        rule.model_copy(update={"sentences": sentences}),
    )


def strings(value: object) -> Iterator[str]:
    """Every string within lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


def sentences(plan: CorpusPlan) -> Iterator[Pair]:
    """The small world's sentences of the right length."""
    speaker = SentenceGenerator(*restricted_grammar(), plan.seed)
    shortest, longest = rules().words
    while True:
        pair = speaker.sentence()
        if all(shortest <= words_of(side) <= longest for side in pair.sides):
            yield pair


def postedit_corpus(plan: CorpusPlan = POSTEDIT) -> dict[Split, list[Edit]]:
    """The corpus of a plan: neither source nor target comes twice."""
    spoiler = ErrorInjector(plan.seed)
    return {split: spoiler.edits(pairs) for split, pairs in split_corpus(sentences(plan), plan).items()}


def make_postedit(plan: CorpusPlan, folder: Path) -> None:
    """Write the corpus of a plan: SPLIT.source, SPLIT.mt, SPLIT.target, SPLIT.corruptions (JSON lines)."""
    for split, edits in postedit_corpus(plan).items():
        for suffix, lines in (
            ("source", [written(edit.source) for edit in edits]),
            ("mt", [written(edit.mt) for edit in edits]),
            ("target", [written(edit.target) for edit in edits]),
            ("corruptions", [edit.line() for edit in edits]),
        ):
            (folder / f"{split}.{suffix}").write_bytes("".join(f"{line}\n" for line in lines).encode())


@dataclass
class Draft:
    """A sentence while it is spoilt: `slots`, what stands at each place of the right words; `touched`, the places."""

    source: list[str]
    right: list[str]
    slots: list[list[str]]
    linked: list[list[int]]  # for each right word the places of its English, in order
    touched: set[int]

    def english(self, index: int) -> list[str]:
        return [self.source[j] for j in self.linked[index]]

    def clause(self, index: int) -> range:
        """The places from one mark to the next around a word."""
        first, last = index, index
        while first and self.right[first - 1] not in PUNCTUATION:
            first -= 1
        while self.right[last] not in PUNCTUATION:
            last += 1
        return range(first, last)


class ErrorInjector:
    """Spoils sentences, one after the other; the same seed makes the same mistakes."""

    def __init__(self, seed: int) -> None:
        self.rules = rules()
        self.choices = Choices(seed)
        self.forms = WordForms(*restricted_grammar())
        self.lower = {word for word in self.forms.readings if word[0].islower()}
        self.ways: dict[How, Callable[[Draft, int, Form | None], tuple[int, ...]]] = {
            "form": self.other_form,
            "other": self.other_word,
            "source": self.untranslated,
            "double": self.doubled,
            "drop": self.dropped,
            "unprefixed": self.unprefixed,
            "english": self.in_english_place,
            "swapped": self.swapped,
        }

    def edits(self, pairs: Sequence[Pair]) -> list[Edit]:
        """A row of each sentence, some of them without mistakes."""
        spared = set(self.choices.some(range(len(pairs)), round(len(pairs) * self.rules.right)))
        numbers = [(weight, number) for number, weight in self.rules.number.items()]
        return [
            self.edit(pair, 0 if place in spared else self.choices.weighted(numbers))
            for place, pair in enumerate(pairs)
        ]

    def edit(self, pair: Pair, count: int) -> Edit:
        """A sentence with so many mistakes, or as many as it has room for."""
        draft = self.draft(pair)
        mistakes = [mistake for _ in range(count) if (mistake := self.mistake(draft))]
        words = [word for slot in draft.slots for word in slot]
        mt = (words[0][0].upper() + words[0][1:], *words[1:])
        return Edit(pair.en, mt, pair.de, tuple(mistakes))

    def draft(self, pair: Pair) -> Draft:
        """A sentence with its first words as they are written elsewhere."""
        de, en = list(pair.de), list(pair.en)
        if de[0].lower() in self.lower or de[0] not in self.forms.readings:
            name = any(de[0] in names for names in self.forms.lexicon.names.values())
            de[0] = de[0] if name else de[0][0].lower() + de[0][1:]
        if en[0] != "I" and en[0] not in de:  # else it is a name
            en[0] = en[0][0].lower() + en[0][1:]
        linked = [sorted(j for i, j in pair.links if i == index) for index in range(len(de))]
        return Draft(en, de, [[word] for word in de], linked, set())

    def mistake(self, draft: Draft) -> Mistake | None:
        """One more mistake; None where the sentence has no room for it."""
        for _ in range(ATTEMPTS):
            kind, corruption = self.choices.weighted(
                [(each.weight, (kind, each)) for kind, each in self.rules.corruptions.items()]
            )
            free = [
                index
                for index in range(len(draft.right))
                if index not in draft.touched
                and self.forms.class_of(draft.right, index, draft.english(index)) in corruption.of
            ]
            for index in self.choices.some(free, len(free)):
                form = self.forms.understood(draft.right, index, draft.english(index))
                if at := self.ways[corruption.how](draft, index, form):
                    draft.touched.update(at)
                    right = " ".join(draft.right[place] for place in at)
                    return Mistake(kind, at, right, " ".join(word for place in at for word in draft.slots[place]))
        return None

    # The ways: each changes the slots of the places that it returns, or none.

    def other_form(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        others = self.forms.other_forms(form, draft.right[index]) if form else []
        return self.replaced(draft, index, others)

    def other_word(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        if form is None:
            return ()
        noun = None
        if form.of == "adjective" and (described := self.forms.understood(draft.right, index + 1, ())):
            noun = described.lemma
        return self.replaced(draft, index, self.forms.other_words(form, draft.right[index], noun))

    def untranslated(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        english = " ".join(draft.english(index))
        return self.replaced(draft, index, [english] if english else [])

    def unprefixed(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        if form is None:
            return ()
        if form.of == "prefix":
            return self.dropped(draft, index, form)
        short = self.forms.unprefixed(form)
        return self.replaced(draft, index, [short] if short else [])

    def replaced(self, draft: Draft, index: int, options: Sequence[str]) -> tuple[int, ...]:
        if not options:
            return ()
        draft.slots[index] = self.choices.one(options).split()
        return (index,)

    def doubled(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        draft.slots[index] = [draft.right[index]] * 2
        return (index,)

    def dropped(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        draft.slots[index] = []
        return (index,)

    def in_english_place(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        """A verb moved behind what its English stands behind: its own auxiliary, or else what the word before means."""
        clause, first = draft.clause(index), draft.linked[index][0]
        behind = [i for i in clause if i < index and self.of_one_verb(draft, i, index)]
        for j in reversed(range(first)):
            behind = behind or [i for i in clause if i != index and j in draft.linked[i]]
        if not behind or behind[-1] == index - 1:
            return ()
        place = behind[-1]
        at = tuple(range(min(index, place), max(index, place) + 1))
        if draft.touched.intersection(at):
            return ()
        draft.slots[index], draft.slots[place] = [], [draft.right[place], draft.right[index]]
        return at

    def of_one_verb(self, draft: Draft, auxiliary: int, index: int) -> bool:
        """Whether a word is the auxiliary of a verb that English says without one."""
        return (
            self.forms.class_of(draft.right, auxiliary, draft.english(auxiliary)) == "auxiliary"
            and draft.linked[auxiliary][-1] == draft.linked[index][-1]
        )

    def swapped(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        here, there = draft.right[index], draft.right[index + 1]
        if there in PUNCTUATION or index + 1 in draft.touched or here == there:
            return ()
        draft.slots[index], draft.slots[index + 1] = [there], [here]
        return (index, index + 1)
