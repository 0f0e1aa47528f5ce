"""Morphological analysis of German words: word class, lemma and form, and the forms of other words."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tools.demo_world.grammar.german import German
from tools.demo_world.grammar.lexicon import Grammar, Lexicon, Number
from tools.demo_world.text import PUNCTUATION

WordClass = Literal["noun", "adjective", "determiner", "verb", "auxiliary", "prefix", "adverb", "other"]
PERSONS = range(5)
PREFIXED_FORMS = ("infinitive", "participle", "zu", "final")  # forms that contain the separable prefix


@dataclass(frozen=True)
class Form:
    """An analysis of a word: word class, lemma, and form."""

    word_class: WordClass
    lemma: str
    form: str


class WordForms:
    """All German forms of a lexicon: text by form, and forms by text.

    `analyses`: the forms that have a text; `paradigms`: the forms of a lemma.
    """

    def __init__(self, lexicon: Lexicon, grammar: Grammar) -> None:
        self.lexicon = lexicon
        self.grammar = grammar
        self.german = German(lexicon, grammar)
        self.text: dict[Form, str] = {}
        self.analyses: dict[str, list[Form]] = {}
        self.paradigms: dict[tuple[WordClass, str], list[Form]] = {}
        for form, text in self.all_forms():
            if form not in self.text:
                self.text[form] = text
                self.analyses.setdefault(text, []).append(form)
                self.paradigms.setdefault((form.word_class, form.lemma), []).append(form)

    def all_forms(self) -> Iterable[tuple[Form, str]]:
        """Every form of every word, with its text."""
        for noun in self.lexicon.noun.values():
            numbers: tuple[Number, ...] = ("s", "p") if noun.plural else ("u",)
            for number in numbers:
                for case in self.grammar.cases:
                    yield Form("noun", noun.de, f"{number} {case}"), self.german.noun(noun, number, case)
        for adjective, entry in self.lexicon.adjectives.items():
            for ending in ("e", "en", "er", "es", "em"):
                yield Form("adjective", adjective, ending), (entry.stem or adjective) + ending
        for determiner in (*self.grammar.determiners, self.grammar.negative, self.grammar.which):
            if determiner.forms and determiner.stem is not None:
                for gender, endings in self.german.tables[determiner.forms].items():
                    for case, ending in zip(self.grammar.cases, endings, strict=True):
                        if gender != "p" or determiner.stem != "ein":
                            yield Form("determiner", determiner.stem, f"{gender} {case}"), determiner.stem + ending
        for verb in self.verbs:
            yield from self.verb_forms(verb, "verb")
        for verb in self.auxiliaries:
            yield from self.verb_forms(verb, "auxiliary")
        for verb in self.verbs:
            if prefix := verb.rpartition("|")[0]:
                yield Form("prefix", prefix, ""), prefix
        for adverbs in self.lexicon.adverbs.values():
            for adverb in adverbs:
                if " " not in adverb:
                    yield Form("adverb", adverb, ""), adverb

    @cached_property
    def verbs(self) -> list[str]:
        """The verbs of all frames, without auxiliaries."""
        frames = self.lexicon.verbs
        return list(dict.fromkeys(verb for name in frames for verb in frames[name] if verb not in self.auxiliaries))

    @cached_property
    def auxiliaries(self) -> list[str]:
        """The auxiliaries and modal verbs of the tenses."""
        items = [item for tense in self.grammar.tenses.values() for item in tense.de]
        names = dict.fromkeys(item.partition(".")[0] for item in items)
        return ["haben", "sein", *(name for name in names if name not in ("verb", "auxiliary"))]

    def verb_forms(self, verb: str, word_class: WordClass) -> Iterable[tuple[Form, str]]:
        """Every form of a verb, with its text."""
        for tense in ("present", "past"):
            for person in PERSONS:
                text, prefix = self.german.verb(verb, tense, person)
                yield Form(word_class, verb, f"{tense} {person}"), text
                if prefix:
                    yield Form(word_class, verb, f"final {tense} {person}"), prefix + text
        for form in ("infinitive", "participle"):
            text, prefix = self.german.verb(verb, form)
            yield Form(word_class, verb, form), prefix + text
            if prefix and form == "infinitive":
                yield Form(word_class, verb, "zu"), f"{prefix}zu{text}"

    def analyse(self, words: list[str], index: int, english: Iterable[str]) -> Form | None:
        """The first possible form of a word in its context; None if its class or lemma is ambiguous or unknown.

        `english`: the words with which it is aligned.
        """
        after = words[index + 1] if index + 1 < len(words) else ""
        analyses = [form for form in self.analyses.get(words[index], []) if self.is_possible(form, after, set(english))]
        determiners = [form for form in analyses if form.word_class == "determiner"]
        analyses = determiners or analyses  # possessive `sein` before its noun
        if len({(form.word_class, form.lemma) for form in analyses}) == 1:
            return analyses[0]
        return None

    def is_possible(self, form: Form, after: str, english: set[str]) -> bool:
        """Whether an analysis is possible before the word `after` and with this English."""
        following = self.analyses.get(after, [])
        noun_follows = after[:1].isupper() or any(each.word_class == "adjective" for each in following)
        match form.word_class:
            case "determiner":
                stems = [d for d in (*self.grammar.determiners, self.grammar.negative) if d.stem == form.lemma]
                translations = {word for determiner in stems for word in determiner.en.values()} | {"an", "a", "not"}
                return noun_follows and bool(english & translations) and not english & {"who", "whom", "that", "to"}
            case "adjective":
                return after[:1].isupper()
            case "prefix":
                return after in (*PUNCTUATION, "und", "aber")
        return True

    def class_of(self, words: list[str], index: int, english: Iterable[str]) -> WordClass | None:
        """A word's class; `other` if it is not in the lexicon, None for punctuation and ambiguous words."""
        if words[index] in PUNCTUATION:
            return None
        if form := self.analyse(words, index, english):
            return form.word_class
        return None if words[index] in self.analyses else "other"

    def other_forms(self, form: Form, text: str) -> list[str]:
        """The word's other inflected forms; for a finite verb those of its tense."""
        forms = self.paradigms[form.word_class, form.lemma]
        if form.word_class in ("verb", "auxiliary"):
            tenses = {each.form.rpartition(" ")[0] for each in self.forms_of_text(form, text)}
            if len(tenses) != 1 or tenses == {""}:
                return []
            forms = [each for each in forms if each.form.rpartition(" ")[0] in tenses]
        return distinct_except([self.text[each] for each in forms], text)

    def forms_of_text(self, form: Form, text: str) -> list[Form]:
        """The forms of the same lemma that have this text."""
        return [each for each in self.analyses[text] if (each.word_class, each.lemma) == (form.word_class, form.lemma)]

    def other_words(self, form: Form, text: str, noun: str | None) -> list[str]:
        """Other words of the same class in the same form. `noun`: the noun that an adjective describes."""
        match form.word_class:
            case "noun":
                own = self.lexicon.noun[form.lemma]
                lemmas = [
                    other.de
                    for other in self.lexicon.noun.values()
                    if (other.kind, other.gender, other.weak) == (own.kind, own.gender, own.weak)
                ]
            case "adjective":
                lemmas = [
                    adjective
                    for adjective, entry in self.lexicon.adjectives.items()
                    if noun in self.lexicon.nouns_of(entry.of)
                ]
            case "verb":
                lemmas = [
                    verb
                    for frame in self.lexicon.verbs.values()
                    if form.lemma in frame
                    for verb in frame
                    if ("|" in verb) == ("|" in form.lemma)
                ]
            case _:
                lemmas = [
                    adverb
                    for adverbs in self.lexicon.adverbs.values()
                    if form.lemma in adverbs
                    for adverb in adverbs
                    if " " not in adverb
                ]
        forms = [each.form for each in self.forms_of_text(form, text)]
        candidates = [{self.text.get(Form(form.word_class, lemma, each)) for each in forms} for lemma in lemmas]
        return distinct_except([word for words in candidates if len(words) == 1 for word in words if word], text)

    def unprefixed(self, form: Form) -> str | None:
        """A verb's form without the separable prefix that it contains; None if it contains none."""
        prefix = form.lemma.rpartition("|")[0]
        if not prefix or form.word_class != "verb" or form.form.split()[0] not in PREFIXED_FORMS:
            return None
        return self.text[form].removeprefix(prefix)


def distinct_except(words: Iterable[str], excluded: str) -> list[str]:
    """The distinct words in order, without one."""
    return [word for word in dict.fromkeys(words) if word != excluded]
