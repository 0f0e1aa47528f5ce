"""The post-editing corpus: English, a German translation with errors, and the correct translation.

The correct translations are sentences of the demo grammar. Errors are injected by the corruptions of postedit.yaml,
each at words that no other error has changed. A dropped or a wrong word can be corrected from the source alone; most
other errors from the translation.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tools.demo_world.choices import Choices
from tools.demo_world.corpus import CorpusPlan, Split, split_corpus
from tools.demo_world.grammar.lexicon import Grammar, Lexicon, Record, grammar, lexicon, read_yaml
from tools.demo_world.grammar.sentences import SentenceGenerator
from tools.demo_world.grammar.word_forms import Form, WordClass, WordForms
from tools.demo_world.pairs import Pair
from tools.demo_world.text import PUNCTUATION, count_words

Operation = Literal["form", "other", "source", "double", "drop", "unprefixed", "english", "swapped"]
POSTEDIT = CorpusPlan(train=6_000, dev=400, test=400)
ATTEMPTS = 30  # corruptions tried per error before a sentence gets no further one


class Corruption(Record):
    """A kind of error. `how`: what is done to the word; `of`: the word classes to which it applies."""

    weight: int
    how: Operation
    of: list[WordClass]


class PostEditRules(Record):
    """The content of postedit.yaml."""

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
    return PostEditRules.model_validate(read_yaml("postedit.yaml"))


@dataclass(frozen=True)
class InjectedError:
    """An error in a translation.

    `kind`: the name of its corruption; `at`: the positions of the words in the target that it replaces; `right`: these
    words; `wrong`: the words in the translation.
    """

    kind: str
    at: tuple[int, ...]
    right: str
    wrong: str


@dataclass(frozen=True)
class PostEdit:
    """A row of the corpus: English source, translation with errors, correct translation, and the errors."""

    source: tuple[str, ...]
    mt: tuple[str, ...]
    target: tuple[str, ...]
    errors: tuple[InjectedError, ...]

    def json_line(self) -> str:
        """The errors as a JSON list."""
        return json.dumps([vars(error) for error in self.errors], ensure_ascii=False)


@lru_cache(maxsize=1)
def restricted_grammar() -> tuple[Lexicon, Grammar]:
    """The lexicon and grammar, reduced to the sizes of postedit.yaml and to the nouns that entries or rules name."""
    limits, words, full_grammar = rules(), lexicon().model_dump(), grammar()
    verbs = {name: dict(list(frame.items())[: limits.verbs]) for name, frame in words["verbs"].items()}
    adjectives = dict(list(words["adjectives"].items())[: limits.adjectives])
    named = set(strings([verbs, adjectives, words["kinds"], full_grammar.model_dump()])) | {"Freund", "Freundin"}
    nouns = {
        kind: {de: entry for index, (de, entry) in enumerate(group.items()) if index < limits.nouns or de in named}
        for kind, group in words["nouns"].items()
    }
    sentences = [rule for rule in full_grammar.sentences if len(rule.clauses) <= limits.clauses]
    return (
        Lexicon.model_validate(words | {"nouns": nouns, "verbs": verbs, "adjectives": adjectives}),
        full_grammar.model_copy(update={"sentences": sentences}),
    )


def strings(value: object) -> Iterator[str]:
    """Every string in nested lists and in the values of nested mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


def sentences(plan: CorpusPlan) -> Iterator[Pair]:
    """Sentence pairs of the restricted grammar whose length is within the limits of postedit.yaml."""
    generator = SentenceGenerator(*restricted_grammar(), plan.seed)
    shortest, longest = rules().words
    while True:
        pair = generator.next_pair()
        if all(shortest <= count_words(side) <= longest for side in pair.sides):
            yield pair


def postedit_corpus(plan: CorpusPlan = POSTEDIT) -> dict[Split, list[PostEdit]]:
    """The corpus of a plan; no source and no target occurs twice."""
    injector = ErrorInjector(plan.seed)
    return {split: injector.edits(pairs) for split, pairs in split_corpus(sentences(plan), plan).items()}


@dataclass
class Draft:
    """A sentence pair during error injection.

    `right`: the correct German words; `slots`: for each of them the words of the translation; `changed`: the positions
    that an error has changed.
    """

    source: list[str]
    right: list[str]
    slots: list[list[str]]
    linked: list[list[int]]  # for each German word the positions of its English words, in order
    changed: set[int]

    def english(self, index: int) -> list[str]:
        """The English words with which a German word is aligned."""
        return [self.source[j] for j in self.linked[index]]

    def clause(self, index: int) -> range:
        """The positions around a word, from the previous punctuation mark to the next."""
        first, last = index, index
        while first and self.right[first - 1] not in PUNCTUATION:
            first -= 1
        while self.right[last] not in PUNCTUATION:
            last += 1
        return range(first, last)


class ErrorInjector:
    """Injects errors into correct translations. The same seed injects the same errors."""

    def __init__(self, seed: int) -> None:
        self.rules = rules()
        self.choices = Choices(seed)
        self.forms = WordForms(*restricted_grammar())
        self.lower = {word for word in self.forms.analyses if word[0].islower()}
        self.operations: dict[Operation, Callable[[Draft, int, Form | None], tuple[int, ...]]] = {
            "form": self.replace_form,
            "other": self.replace_word,
            "source": self.leave_untranslated,
            "double": self.double,
            "drop": self.drop,
            "unprefixed": self.remove_prefix,
            "english": self.move_as_in_english,
            "swapped": self.swap,
        }

    def edits(self, pairs: Sequence[Pair]) -> list[PostEdit]:
        """A row for each sentence pair; the share `right` of them has no errors."""
        correct = set(self.choices.sample(range(len(pairs)), round(len(pairs) * self.rules.right)))
        numbers = [(weight, number) for number, weight in self.rules.number.items()]
        return [
            self.edit(pair, 0 if index in correct else self.choices.weighted(numbers))
            for index, pair in enumerate(pairs)
        ]

    def edit(self, pair: Pair, count: int) -> PostEdit:
        """A row with `count` errors, or fewer if no further one is possible."""
        draft = self.draft(pair)
        errors = [error for _ in range(count) if (error := self.inject(draft))]
        words = [word for slot in draft.slots for word in slot]
        mt = (words[0][0].upper() + words[0][1:], *words[1:])
        return PostEdit(pair.en, mt, pair.de, tuple(errors))

    def draft(self, pair: Pair) -> Draft:
        """A sentence pair with its first words in their spelling inside a sentence."""
        de, en = list(pair.de), list(pair.en)
        if de[0].lower() in self.lower or de[0] not in self.forms.analyses:
            name = any(de[0] in names for names in self.forms.lexicon.names.values())
            de[0] = de[0] if name else de[0][0].lower() + de[0][1:]
        if en[0] != "I" and en[0] not in de:  # a word that is in both is a name
            en[0] = en[0][0].lower() + en[0][1:]
        linked = [sorted(j for i, j in pair.links if i == index) for index in range(len(de))]
        return Draft(en, de, [[word] for word in de], linked, set())

    def inject(self, draft: Draft) -> InjectedError | None:
        """Inject an error; None if none was possible in ATTEMPTS attempts."""
        for _ in range(ATTEMPTS):
            kind, corruption = self.choices.weighted(
                [(each.weight, (kind, each)) for kind, each in self.rules.corruptions.items()]
            )
            free = [
                index
                for index in range(len(draft.right))
                if index not in draft.changed
                and self.forms.class_of(draft.right, index, draft.english(index)) in corruption.of
            ]
            for index in self.choices.sample(free, len(free)):
                form = self.forms.analyse(draft.right, index, draft.english(index))
                if at := self.operations[corruption.how](draft, index, form):
                    draft.changed.update(at)
                    right = " ".join(draft.right[place] for place in at)
                    return InjectedError(kind, at, right, " ".join(word for place in at for word in draft.slots[place]))
        return None

    # Operations: each changes slots and returns their positions; () if it is not possible.

    def replace_form(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        others = self.forms.other_forms(form, draft.right[index]) if form else []
        return self.replace(draft, index, others)

    def replace_word(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        if form is None:
            return ()
        noun = None
        if form.word_class == "adjective" and (described := self.forms.analyse(draft.right, index + 1, ())):
            noun = described.lemma
        return self.replace(draft, index, self.forms.other_words(form, draft.right[index], noun))

    def leave_untranslated(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        english = " ".join(draft.english(index))
        return self.replace(draft, index, [english] if english else [])

    def remove_prefix(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        if form is None:
            return ()
        if form.word_class == "prefix":
            return self.drop(draft, index, form)
        short = self.forms.unprefixed(form)
        return self.replace(draft, index, [short] if short else [])

    def replace(self, draft: Draft, index: int, options: Sequence[str]) -> tuple[int, ...]:
        if not options:
            return ()
        draft.slots[index] = self.choices.one(options).split()
        return (index,)

    def double(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        draft.slots[index] = [draft.right[index]] * 2
        return (index,)

    def drop(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        draft.slots[index] = []
        return (index,)

    def move_as_in_english(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        """Move a verb to its English position: after its auxiliary, or else after what precedes it in English."""
        clause, first = draft.clause(index), draft.linked[index][0]
        before = [i for i in clause if i < index and self.is_auxiliary_of(draft, i, index)]
        for j in reversed(range(first)):
            before = before or [i for i in clause if i != index and j in draft.linked[i]]
        if not before or before[-1] == index - 1:
            return ()
        place = before[-1]
        at = tuple(range(min(index, place), max(index, place) + 1))
        if draft.changed.intersection(at):
            return ()
        draft.slots[index], draft.slots[place] = [], [draft.right[place], draft.right[index]]
        return at

    def is_auxiliary_of(self, draft: Draft, auxiliary: int, index: int) -> bool:
        """Whether a word is the auxiliary of the verb at `index` and English has none."""
        return (
            self.forms.class_of(draft.right, auxiliary, draft.english(auxiliary)) == "auxiliary"
            and draft.linked[auxiliary][-1] == draft.linked[index][-1]
        )

    def swap(self, draft: Draft, index: int, form: Form | None) -> tuple[int, ...]:
        word, following = draft.right[index], draft.right[index + 1]
        if following in PUNCTUATION or index + 1 in draft.changed or word == following:
            return ()
        draft.slots[index], draft.slots[index + 1] = [following], [word]
        return (index, index + 1)
