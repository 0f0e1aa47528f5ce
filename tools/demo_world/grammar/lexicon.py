"""The records of lexicon.yaml and grammar.yaml: words, inflection tables, clauses and sentences."""

from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

FOLDER = Path(__file__).parents[1]  # tools/demo_world

Case = Literal["nominative", "accusative", "dative", "genitive"]
Number = Literal["s", "p", "u"]  # singular, plural, uncounted
Gender = Literal["m", "f", "n"]
Adverbial = Literal["loud", "calm", "body", "slow", "face"]
Table = dict[str, list[str]]
Words = Annotated[list[str], BeforeValidator(lambda value: value.split() if isinstance(value, str) else value)]


class Record(BaseModel):
    """A frozen record of a YAML file; an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Noun(Record):
    """A German noun and its English translation.

    `plural`: None if uncountable. `weak`: declined with the plural form in every case but the nominative singular.
    """

    de: str
    gender: Gender
    plural: str | None
    en: str
    en_plural: str | None
    kind: str
    weak: bool
    genitive: str | None


class Adjective(Record):
    """An adjective. `of`: the kinds of noun that it describes; `stem`: what endings are added to."""

    en: list[str]  # English; German comparative, English comparative
    of: list[str]
    stem: str | None = None


class Verb(Record):
    """A verb in one frame: its English translation and its arguments, as kinds of noun or single nouns."""

    en: str
    subject: list[str] = ["human"]
    object: list[str] = []
    recipient: list[str] = ["human"]
    place: list[str] = []
    goal: list[str] = []
    by: list[str] = []
    preposition: tuple[str, Case, str] | None = None
    manner: Adverbial | None = None
    reflexive: bool = False
    needs_place: bool = False
    company: bool = False
    bare: bool = False
    state: bool = False
    moment: bool = False
    particle: bool = False


class Adverb(Record):
    """An adverb's English translation, and the tenses with which it is used."""

    en: str
    tenses: list[str] = []


class Lexicon(Record):
    """The content of lexicon.yaml."""

    nouns: dict[str, dict[str, list[str]]]
    weak: list[str]
    unowned: list[str]
    genitives: dict[str, str]
    names: dict[Gender, list[str]]
    kinds: dict[str, list[str]]
    adjectives: dict[str, Adjective]
    verbs: dict[str, dict[str, Verb]]
    principal: dict[str, tuple[str | list[str], str, str]]
    second: dict[str, str]
    with_sein: list[str]
    irregular: dict[str, tuple[str, str]]
    doubling: list[str]
    adverbs: dict[str, dict[str, Adverb]]

    @cached_property
    def noun(self) -> dict[str, Noun]:
        """All nouns, by German singular."""
        return {
            de: Noun(
                de=de,
                gender=entry[0],
                plural=None if entry[1] == "-" else entry[1],
                en=entry[2],
                en_plural=entry[3] if len(entry) > 3 else None,
                kind=kind,
                weak=de in self.weak,
                genitive=self.genitives.get(de),
            )
            for kind, nouns in self.nouns.items()
            for de, entry in nouns.items()
        }

    def nouns_of(self, kinds: list[str]) -> tuple[str, ...]:
        """The nouns of these kinds, in the lexicon's order. Raises KeyError.

        A kind is a group of nouns, a group of kinds, or a single noun.
        """
        wanted: set[str] = set()
        for kind in kinds:
            if kind in self.kinds:
                wanted.update(self.nouns_of(self.kinds[kind]))
            elif kind in self.nouns:
                wanted.update(self.nouns[kind])
            else:
                wanted.add(self.noun[kind].de)
        return tuple(noun for noun in self.noun if noun in wanted)


class GermanRules(Record):
    """Inflection tables by gender and case, and regular expressions of the exceptions."""

    definite: Table
    relative: Table
    full: Table
    short: Table
    weak: Table
    mixed: Table
    strong: Table
    contractions: dict[str, str]
    linking_e: str
    no_second_s: str
    no_ge: str
    long_genitive: str


class EnglishRules(Record):
    """Regular expressions of spelling rules, auxiliaries, and the forms of `be`."""

    plural_es: str
    third_es: str
    an: str
    auxiliaries: list[str]
    be: dict[Literal["present", "past"], list[str]]


class Pronoun(Record):
    person: int
    nominative: str
    accusative: str | None = None
    dative: str | None = None
    reflexive: str
    subject: str
    object: str


class Determiner(Record):
    """A determiner. `adjective`: the inflection of the adjective after it."""

    weight: int
    stem: str | None = None
    forms: Literal["definite", "full", "short"] | None = None
    number: str
    adjective: Literal["weak", "mixed", "strong"]
    definite: bool = False
    possessive: bool = False
    en: dict[Number, str]


class Preposition(Record):
    """A preposition. `of`: kinds of its noun; `head`: kinds of noun that the prepositional phrase can modify."""

    weight: int
    de: str | None = None
    case: Case
    en: str
    of: list[str]
    head: list[str] = []


class Tense(Record):
    """The verb group of a tense or modal construction, in both languages."""

    weight: int
    de: list[str]
    en: list[str]
    particle: str | None = None


class Frame(Record):
    """A verb's argument structure."""

    weight: int
    object: Case | None = None
    recipient: Case | None = None
    english: str | None = None
    swapped: bool = False
    reflexive: bool = False
    preposition: bool = False
    goal: bool = False
    alone: bool = False
    predicate: bool = False
    there: tuple[str, str] | None = None
    tenses: list[str] = []


class Layout(Record):
    """The order of a clause's constituents in both languages."""

    de: Words
    en: Words
    question: bool = False
    final: bool = False


class ClauseRule(Record):
    """The constraints of a sentence rule on one of its clauses."""

    layout: str
    frames: list[str] = []
    tenses: list[str] = []
    needs: list[str] = []
    without: list[str] = []
    visible: Literal["object", "recipient"] | None = None
    determiner: Literal["which"] | None = None
    subject: str | tuple[str, str] | None = None
    object: tuple[str, str] | None = None
    of: list[str] = []
    short: bool = False
    somewhere: bool = False


class SentenceRule(Record):
    """A sentence as a sequence of clauses, conjunctions and punctuation marks."""

    weight: int
    clauses: dict[str, ClauseRule]
    choose: dict[str, list[tuple[str, str]]] = {}
    de: Words
    en: Words


class Grammar(Record):
    """The content of grammar.yaml."""

    cases: list[Case]
    german: GermanRules
    english: EnglishRules
    pronouns: list[Pronoun]
    determiners: list[Determiner]
    negative: Determiner
    which: Determiner
    prepositions: dict[Literal["place", "goal", "when", "company"], list[Preposition]]
    when_tenses: list[str]
    attributes: list[Preposition]
    tenses: dict[str, Tense]
    willing: list[str]
    needs_time: list[str]
    not_for_states: list[str]
    not_for_moments: list[str]
    frames: dict[str, Frame]
    layouts: dict[str, Layout]
    literals: dict[str, tuple[str, str]]
    relative: dict[Literal["subject", "object"], ClauseRule]
    sentences: list[SentenceRule]
    chances: dict[str, float] = Field(min_length=1)


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    return Lexicon.model_validate(read_yaml("grammar/lexicon.yaml"))


@lru_cache(maxsize=1)
def grammar() -> Grammar:
    return Grammar.model_validate(read_yaml("grammar/grammar.yaml"))


def read_yaml(name: str) -> object:
    """The content of a YAML file of tools/demo_world, read by PyYAML's C parser if available: ten times as fast."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((FOLDER / name).read_text(encoding="utf-8"), Loader=loader)
