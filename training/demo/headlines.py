"""Passages of the demo world and their headlines: the forms of headlines.yaml, filled by seeded choices.

Everything is chosen once and said twice, at length and short. A word of a headline is linked with the words of its
passage that it was made from; a word that comes from nowhere has no link.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Literal, TypeVar

from training.demo.corpus import CorpusPlan, Split, split_corpus, write
from training.demo.english import English
from training.demo.lexicon import Lexicon, Noun, Number, Record, Verb, grammar, lexicon, read
from training.demo.lexicon import Words as Tokens
from training.demo.pairs import UNMARKED, Marks, Story, Word, Words, links_between
from training.demo.sentences import one_comma

T = TypeVar("T")
HEADLINES = CorpusPlan(train=10_000, novel=0.1)


class Form(Record):
    """A passage's part and what a headline makes of it."""

    weight: int
    passage: Tokens
    headline: Tokens


class StoryForm(Form):
    frame: str
    agrees: str = "subject"


class PhraseForm(Form):
    of: tuple[str, ...] = ()
    number: str = "spu"


class Lengths(Record):
    """The least and the most tokens, and the least and the most headline for its passage."""

    passage: tuple[int, int]
    headline: tuple[int, int]
    ratio: tuple[float, float]


class Forms(Record):
    """What headlines.yaml says."""

    tokens: Lengths
    stories: list[StoryForm]
    untold: list[str]
    phrases: list[PhraseForm]
    determiners: dict[Number, list[str]]
    kept: list[str]
    articles: list[str]
    plural: float
    places: dict[str, list[str]]
    asides: dict[str, list[tuple[int, Tokens]]]
    shorter: dict[Literal["verbs", "nouns"], dict[str, str]]


@lru_cache(maxsize=1)
def forms() -> Forms:
    return Forms.model_validate(read("headlines.yaml"))


def headline_corpus(plan: CorpusPlan = HEADLINES) -> dict[Split, list[Story]]:
    """The corpus of a plan. A combination: a verb with its object or goal, a noun with one that describes it."""
    return split_corpus(stories(plan), plan)


def stories(plan: CorpusPlan) -> Iterator[Story]:
    """The world's stories of the right lengths."""
    teller = StoryGenerator(lexicon(), forms(), plan.seed)
    while True:
        story = teller.story()
        if fits(story, forms().tokens):
            yield story


def fits(story: Story, lengths: Lengths) -> bool:
    passage, headline = len(story.passage), len(story.headline)
    return all(
        least <= count <= most
        for count, (least, most) in (
            (passage, lengths.passage),
            (headline, lengths.headline),
            (headline / passage, lengths.ratio),
        )
    )


def make_headlines(plan: CorpusPlan, folder: Path) -> None:
    """Write the corpus of a plan: SPLIT.passage, SPLIT.headline (tokenised, lower case), SPLIT.align."""
    write(headline_corpus(plan), folder, ("passage", "headline"), " ".join)


@dataclass(frozen=True)
class Phrase:
    """A part of a story at length and short. `person`: what a verb agrees with; `head`: its noun."""

    passage: Words = ()
    headline: Words = ()
    person: int = 2
    head: str = ""


@lru_cache(maxsize=1024)
def parsed(token: str) -> tuple[str, str, str]:
    """A token of a form: its text, the name in braces, if it is one, and its #number, if it has one."""
    text, _, number = token.partition("#")
    return text, text[1:-1] if text.startswith("{") else "", number


class NoSuchStoryError(Exception):
    """The choices made so far leave nothing to say; the story is begun again."""


class StoryGenerator:
    """Tells stories, one after the other; the same seed tells the same ones."""

    def __init__(self, lexicon: Lexicon, forms: Forms, seed: int) -> None:
        self.lexicon = lexicon
        self.forms = forms
        self.english = English(lexicon, grammar())
        self.random = Random(seed)
        self.mark = 0
        self.used: set[str] = set()
        self.combinations: set[tuple[str, str]] = set()
        self.kinds: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.fitted: dict[tuple[str, Number], list[tuple[int, PhraseForm]]] = {}
        self.names = [name for names in lexicon.names.values() for name in names]
        self.told = {" ".join(form.passage): self.told_in(form) for form in forms.stories}
        self.adjectives: dict[str, list[str]] = {noun: [] for noun in lexicon.noun}
        for facts in lexicon.adjectives.values():
            for noun in lexicon.nouns_of(facts.of):
                self.adjectives[noun].append(facts.en[0])

    # Choices: only Random.random(), whose numbers are the same in every version of Python.

    def choose(self, options: Sequence[T]) -> T:
        if not options:
            raise NoSuchStoryError
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        point = self.random.random() * sum(weight for weight, _ in options)
        for weight, option in options:
            point -= weight
            if point < 0:
                return option
        raise NoSuchStoryError

    def nouns_of(self, kinds: Sequence[str]) -> tuple[str, ...]:
        key = tuple(kinds)
        if key not in self.kinds:
            self.kinds[key] = self.lexicon.nouns_of(list(kinds))
        return self.kinds[key]

    def once(self, word: str) -> str:
        """A word that the story has not used yet."""
        if word in self.used:
            raise NoSuchStoryError
        self.used.add(word)
        return word

    def noun(self, kinds: Sequence[str]) -> Noun:
        """A noun of one of the kinds, whose English the story has not used yet."""
        noun = self.lexicon.noun[self.choose(self.nouns_of(kinds))]
        self.once(noun.en)
        return noun

    def new_mark(self) -> Marks:
        self.mark += 1
        return frozenset([self.mark])

    # Stories.

    def story(self) -> Story:
        """The next story."""
        while True:
            self.mark = 0
            self.used = set()
            self.combinations = set()
            try:
                return self.attempt()
            except NoSuchStoryError:
                continue

    def attempt(self) -> Story:
        form = self.weighted([(form.weight, form) for form in self.forms.stories])
        verb = self.choose(self.told[" ".join(form.passage)])
        kinds = {"subject": verb.subject, "object": verb.object, "recipient": verb.recipient, "goal": verb.goal}
        parts = {name: self.noun_phrase(kinds[name]) for name in kinds if f"{{{name}}}" in form.passage}
        if "{witness}" in form.passage:
            parts["witness"] = self.noun_phrase(["human"], plural=0)
        if "{where}" in form.passage:
            parts["where"] = self.where(verb)
        self.combinations |= {(verb.en, parts[name].head) for name in ("object", "goal") if name in parts}
        self.add_verbs(verb.en, form, parts)
        whole = self.filled(form.passage, form.headline, parts)
        passage = self.written(whole.passage)
        headline = tuple(word.text for word in whole.headline)
        links = links_between(passage, whole.headline)
        return Story(tuple(word.text for word in passage), headline, links, frozenset(self.combinations))

    def told_in(self, form: StoryForm) -> list[Verb]:
        """The verbs that go with a form, and make news."""
        return [
            verb
            for verb in self.lexicon.verbs[form.frame].values()
            if (verb.place if "{where}" in form.passage else not verb.needs_place)
            and not (verb.state or verb.by or verb.en in self.forms.untold)
        ]

    def written(self, words: Words) -> Words:
        """The words with their commas settled, and `a` or `an`."""
        words = one_comma(words)
        following = [word.text for word in words[1:]] + [""]
        return tuple(
            Word(self.english.article(after), word.marks) if word.text == "a" else word
            for word, after in zip(words, following, strict=True)
        )

    # Parts.

    def filled(self, passage: Sequence[str], headline: Sequence[str], parts: dict[str, Phrase]) -> Phrase:
        """Both sides of a form, its parts in their places; those that are not there yet are chosen, and added."""
        numbered: dict[str, Marks] = {}

        def side(tokens: Sequence[str], which: Literal["passage", "headline"]) -> Iterator[Word]:
            for token in tokens:
                text, name, number = parsed(token)
                marks = numbered.setdefault(number, self.new_mark()) if number else UNMARKED
                if not name:
                    yield Word(text, marks)
                    continue
                if name not in parts:
                    parts[name] = self.part(name)
                words = parts[name].passage if which == "passage" else parts[name].headline
                yield from words if not marks else (Word(word.text, word.marks | marks) for word in words)

        return Phrase(tuple(side(passage, "passage")), tuple(side(headline, "headline")))

    def part(self, name: str) -> Phrase:
        """What a name in braces stands for anywhere: an aside, an article, a person's name, a noun of a kind."""
        if name in self.forms.asides:
            self.once(f"the aside {name}")
            return self.filled(self.weighted(self.forms.asides[name]), [], {})
        if name == "article":
            return Phrase((Word(self.choose(self.forms.articles)),))
        if name == "name":
            person = Word(self.choose(self.names).lower(), self.new_mark())
            return Phrase((person,), (person,))
        return self.named(self.noun([name]), "s")

    def noun_phrase(self, kinds: Sequence[str], plural: float | None = None) -> Phrase:
        """A noun of one of the kinds, and what is said of it; `plural`: the chance of that."""
        noun = self.noun(kinds)
        chance = self.forms.plural if plural is None else plural
        number: Number = "u" if noun.plural is None else "p" if self.random.random() < chance else "s"
        form = self.weighted(self.fitting(noun, number))
        determiner = self.choose(self.forms.determiners[number])
        said = (Word(determiner, self.new_mark()),)
        parts = {
            "noun": self.named(noun, number),
            "determiner": Phrase(said, said if determiner in self.forms.kept else ()),
        }
        for name in ("adjective", "other-adjective"):
            if f"{{{name}}}" in form.passage:
                parts[name] = Phrase((Word(self.once(self.choose(self.adjectives[noun.de]))),))
        phrase = self.filled(form.passage, form.headline, parts)
        for name, part in parts.items():
            if part.head and name != "noun" and f"{{{name}}}" in form.headline:
                self.combinations.add((part.head, noun.en))
        return replace(phrase, person=4 if number == "p" else 2, head=noun.en)

    def fitting(self, noun: Noun, number: Number) -> list[tuple[int, PhraseForm]]:
        """The forms that a noun can stand in."""
        key = noun.de, number
        if key not in self.fitted:
            self.fitted[key] = [
                (form.weight, form)
                for form in self.forms.phrases
                if number in form.number
                and (not form.of or noun.de in self.nouns_of(form.of))
                and sum("adjective}" in token for token in form.passage) <= len(self.adjectives[noun.de])
            ]
        return self.fitted[key]

    def where(self, verb: Verb) -> Phrase:
        """A place that a headline keeps."""
        noun = self.noun(verb.place)
        preposition = next(name for name, kinds in self.forms.places.items() if noun.de in self.nouns_of(kinds))
        parts = {"noun": self.named(noun, "s")}
        return self.filled([f"{preposition}#1", "the", "{noun}"], [f"{preposition}#1", "{noun}"], parts)

    def named(self, noun: Noun, number: Number) -> Phrase:
        """A noun's words, and the shorter ones that a headline may have instead."""
        short = self.forms.shorter["nouns"].get(noun.en)
        shorter = noun if short is None else noun.model_copy(update={"en": short, "en_plural": None})
        return replace(
            self.aligned(*(self.english.noun(each, number).split() for each in (noun, shorter))), head=noun.en
        )

    def aligned(self, long: list[str], short: list[str]) -> Phrase:
        """The words of one thing, at length and short: linked in order, or all with all."""
        count = len(long) if len(long) == len(short) else 1
        marks = [self.new_mark() for _ in range(count)]
        sides = [[Word(word, marks[i % count]) for i, word in enumerate(words)] for words in (long, short)]
        return Phrase(tuple(sides[0]), tuple(sides[1]))

    def add_verbs(self, verb: str, form: StoryForm, parts: dict[str, Phrase]) -> None:
        """Every form of a verb that a story asks for, as `verb:past`; any other verb may stand for `verb`."""
        told = self.aligned(verb.split(), self.forms.shorter["verbs"].get(verb, verb).split())
        persons = parts[form.agrees].person, parts["subject"].person
        for token in (*form.passage, *form.headline):
            name = parsed(token)[1]
            base, colon, inflection = name.partition(":")
            if colon:
                said = told if base == "verb" else Phrase((Word(base),), (Word(base),))
                passage, headline = (
                    self.inflected(words, inflection, person)
                    for words, person in zip((said.passage, said.headline), persons, strict=True)
                )
                parts[name] = Phrase(passage, headline)

    def inflected(self, words: Words, form: str, person: int) -> Words:
        """A verb's words, the first of them in a form."""
        return (replace(words[0], text=self.english.verb(words[0].text, form, person)), *words[1:])
