"""The headline corpus: passages and their headlines, generated from the templates of headlines.yaml.

Both sides of a pair are generated from the same random choices. A word of a headline is linked with the words of the
passage from which it was made; a word without a source has no link.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tools.demo_world.corpus import CorpusPlan, Split, split_corpus
from tools.demo_world.grammar.generator import Generator
from tools.demo_world.grammar.lexicon import Grammar, Lexicon, Noun, Number, Record, Verb, grammar, lexicon, read_yaml
from tools.demo_world.grammar.lexicon import Words as Tokens
from tools.demo_world.pairs import UNMARKED, Marks, Story, Word, Words, links_between
from tools.demo_world.text import remove_extra_commas

HEADLINES = CorpusPlan(train=10_000, novel=0.1)


class Template(Record):
    """The same content as a part of a passage and as a part of its headline."""

    weight: int
    passage: Tokens
    headline: Tokens


class StoryTemplate(Template):
    """A passage and its headline. `frame`: that of its verb; `agrees`: the part with which its verbs agree."""

    frame: str
    agrees: str = "subject"


class PhraseTemplate(Template):
    """A noun phrase for nouns of the kinds `of` (empty: all); `number`: singular, plural, uncountable."""

    of: tuple[str, ...] = ()
    number: str = "spu"


class Lengths(Record):
    """Minimum and maximum of the tokens of each side, and of the ratio of headline to passage."""

    passage: tuple[int, int]
    headline: tuple[int, int]
    ratio: tuple[float, float]


class HeadlineRules(Record):
    """The content of headlines.yaml."""

    tokens: Lengths
    stories: list[StoryTemplate]
    untold: list[str]
    phrases: list[PhraseTemplate]
    determiners: dict[Number, list[str]]
    kept: list[str]
    articles: list[str]
    plural: float
    places: dict[str, list[str]]
    asides: dict[str, list[tuple[int, Tokens]]]
    shorter: dict[Literal["verbs", "nouns"], dict[str, str]]


@lru_cache(maxsize=1)
def rules() -> HeadlineRules:
    return HeadlineRules.model_validate(read_yaml("headlines.yaml"))


def headline_corpus(plan: CorpusPlan = HEADLINES) -> dict[Split, list[Story]]:
    """The corpus of a plan. Its combinations: a verb with its object or goal, a noun with the noun that modifies it."""
    return split_corpus(stories(plan), plan)


def stories(plan: CorpusPlan) -> Iterator[Story]:
    """Stories whose lengths are within the limits of headlines.yaml."""
    generator = StoryGenerator(lexicon(), grammar(), rules(), plan.seed)
    while True:
        story = generator.next_pair()
        if has_valid_lengths(story, rules().tokens):
            yield story


def has_valid_lengths(story: Story, lengths: Lengths) -> bool:
    """Whether passage, headline and their ratio are within the limits."""
    passage, headline = len(story.passage), len(story.headline)
    return all(
        minimum <= value <= maximum
        for value, (minimum, maximum) in (
            (passage, lengths.passage),
            (headline, lengths.headline),
            (headline / passage, lengths.ratio),
        )
    )


@dataclass(frozen=True)
class Phrase:
    """A part of a passage and of its headline. `person`: for agreement with the verb; `head`: its English noun."""

    passage: Words = ()
    headline: Words = ()
    person: int = 2
    head: str = ""


@lru_cache(maxsize=1024)
def parse_token(token: str) -> tuple[str, str, str]:
    """A token of a template: its text, the name in braces or "", and its #number or ""."""
    text, _, number = token.partition("#")
    return text, text[1:-1] if text.startswith("{") else "", number


class StoryGenerator(Generator[Story]):
    """Generates stories. Words of the headline have the alignment marks of their sources in the passage."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar, rules: HeadlineRules, seed: int) -> None:
        super().__init__(lexicon, grammar, seed)
        self.rules = rules
        self.template_cache: dict[tuple[str, Number], list[tuple[int, PhraseTemplate]]] = {}
        self.names = [name for names in lexicon.names.values() for name in names]
        self.verbs_of = {" ".join(template.passage): self.verbs_for(template) for template in rules.stories}

    def noun(self, kinds: Sequence[str]) -> Noun:
        """A noun of one of the kinds whose English word the story has not used yet. Raises NoChoiceError."""
        noun = self.lexicon.noun[self.choices.one(self.nouns_of(kinds))]
        self.use_once(noun.en)
        return noun

    def attempt(self) -> Story:
        """A story that follows a random template. Raises NoChoiceError."""
        template = self.choices.weighted([(template.weight, template) for template in self.rules.stories])
        verb = self.choices.one(self.verbs_of[" ".join(template.passage)])
        kinds = {"subject": verb.subject, "object": verb.object, "recipient": verb.recipient, "goal": verb.goal}
        parts = {name: self.noun_phrase(kinds[name]) for name in kinds if f"{{{name}}}" in template.passage}
        if "{witness}" in template.passage:
            parts["witness"] = self.noun_phrase(["human"], plural=0)
        if "{where}" in template.passage:
            parts["where"] = self.location(verb)
        self.combinations |= {(verb.en, parts[name].head) for name in ("object", "goal") if name in parts}
        self.add_verbs(verb.en, template, parts)
        story = self.fill(template.passage, template.headline, parts)
        passage = self.with_articles(remove_extra_commas(story.passage))
        headline = tuple(word.text for word in story.headline)
        links = links_between(passage, story.headline)
        return Story(tuple(word.text for word in passage), headline, links, frozenset(self.combinations))

    def verbs_for(self, template: StoryTemplate) -> list[Verb]:
        """The verbs that can be used in a template."""
        return [
            verb
            for verb in self.lexicon.verbs[template.frame].values()
            if (verb.place if "{where}" in template.passage else not verb.needs_place)
            and not (verb.state or verb.by or verb.en in self.rules.untold)
        ]

    # Parts.

    def fill(self, passage: Sequence[str], headline: Sequence[str], parts: dict[str, Phrase]) -> Phrase:
        """Both sides of a template with its parts filled in. Missing parts are generated and added to `parts`."""
        marks_of: dict[str, Marks] = {}

        def side(tokens: Sequence[str], which: Literal["passage", "headline"]) -> Iterator[Word]:
            for token in tokens:
                text, name, number = parse_token(token)
                marks = marks_of.setdefault(number, self.new_mark()) if number else UNMARKED
                if not name:
                    yield Word(text, marks)
                    continue
                if name not in parts:
                    parts[name] = self.part(name)
                words = parts[name].passage if which == "passage" else parts[name].headline
                yield from words if not marks else (Word(word.text, word.marks | marks) for word in words)

        return Phrase(tuple(side(passage, "passage")), tuple(side(headline, "headline")))

    def part(self, name: str) -> Phrase:
        """A part for a name in braces: an aside, an article, a person's name, or a noun of that kind."""
        if name in self.rules.asides:
            self.use_once(f"the aside {name}")
            return self.fill(self.choices.weighted(self.rules.asides[name]), [], {})
        if name == "article":
            return Phrase((Word(self.choices.one(self.rules.articles)),))
        if name == "name":
            person = Word(self.choices.one(self.names).lower(), self.new_mark())
            return Phrase((person,), (person,))
        return self.noun_words(self.noun([name]), "s")

    def noun_phrase(self, kinds: Sequence[str], plural: float | None = None) -> Phrase:
        """A noun phrase with a noun of one of the kinds; `plural`: its probability, by default that of the rules."""
        noun = self.noun(kinds)
        probability = self.rules.plural if plural is None else plural
        number: Number = "u" if noun.plural is None else "p" if self.choices.chance(probability) else "s"
        template = self.choices.weighted(self.fitting_templates(noun, number))
        determiner = self.choices.one(self.rules.determiners[number])
        words = (Word(determiner, self.new_mark()),)
        parts = {
            "noun": self.noun_words(noun, number),
            "determiner": Phrase(words, words if determiner in self.rules.kept else ()),
        }
        for name in ("adjective", "other-adjective"):
            if f"{{{name}}}" in template.passage:
                adjective = self.lexicon.adjectives[self.choices.one(self.adjectives_of[noun.de])].en[0]
                parts[name] = Phrase((Word(self.use_once(adjective)),))
        phrase = self.fill(template.passage, template.headline, parts)
        for name, part in parts.items():
            if part.head and name != "noun" and f"{{{name}}}" in template.headline:
                self.combinations.add((part.head, noun.en))
        return replace(phrase, person=4 if number == "p" else 2, head=noun.en)

    def fitting_templates(self, noun: Noun, number: Number) -> list[tuple[int, PhraseTemplate]]:
        """The templates for a noun with their weights, cached."""
        key = noun.de, number
        if key not in self.template_cache:
            self.template_cache[key] = [
                (template.weight, template)
                for template in self.rules.phrases
                if number in template.number
                and (not template.of or noun.de in self.nouns_of(template.of))
                and sum("adjective}" in token for token in template.passage) <= len(self.adjectives_of[noun.de])
            ]
        return self.template_cache[key]

    def location(self, verb: Verb) -> Phrase:
        """A location of the verb, which the headline keeps."""
        noun = self.noun(verb.place)
        preposition = next(name for name, kinds in self.rules.places.items() if noun.de in self.nouns_of(kinds))
        parts = {"noun": self.noun_words(noun, "s")}
        return self.fill([f"{preposition}#1", "the", "{noun}"], [f"{preposition}#1", "{noun}"], parts)

    def noun_words(self, noun: Noun, number: Number) -> Phrase:
        """A noun's words, and those of its shorter synonym in the headline, if it has one."""
        short = self.rules.shorter["nouns"].get(noun.en)
        shorter = noun if short is None else noun.model_copy(update={"en": short, "en_plural": None})
        return replace(
            self.aligned(*(self.english.noun(each, number).split() for each in (noun, shorter))), head=noun.en
        )

    def aligned(self, long: list[str], short: list[str]) -> Phrase:
        """Passage and headline words that correspond: aligned in order if equally many, otherwise each with each."""
        count = len(long) if len(long) == len(short) else 1
        marks = [self.new_mark() for _ in range(count)]
        sides = [[Word(word, marks[i % count]) for i, word in enumerate(words)] for words in (long, short)]
        return Phrase(tuple(sides[0]), tuple(sides[1]))

    def add_verbs(self, verb: str, template: StoryTemplate, parts: dict[str, Phrase]) -> None:
        """Add a part for each verb form in the template, such as `verb:past` (the story's verb) and `be:past`."""
        main = self.aligned(verb.split(), self.rules.shorter["verbs"].get(verb, verb).split())
        persons = parts[template.agrees].person, parts["subject"].person
        for token in (*template.passage, *template.headline):
            name = parse_token(token)[1]
            base, colon, inflection = name.partition(":")
            if colon:
                words = main if base == "verb" else Phrase((Word(base),), (Word(base),))
                passage, headline = (
                    self.inflect_first(side, inflection, person)
                    for side, person in zip((words.passage, words.headline), persons, strict=True)
                )
                parts[name] = Phrase(passage, headline)

    def inflect_first(self, words: Words, form: str, person: int) -> Words:
        """A verb's words with the first one inflected."""
        return (replace(words[0], text=self.english.verb(words[0].text, form, person)), *words[1:])
