"""What a German word of the demo world is: its class, and the other words that could stand in its form."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from training.demo.german import German
from training.demo.lexicon import Grammar, Lexicon, Number
from training.demo.sentences import PUNCTUATION

WordClass = Literal["noun", "adjective", "determiner", "verb", "auxiliary", "prefix", "adverb", "other"]
PERSONS = range(5)
JOINED = ("infinitive", "participle", "zu", "final")  # forms that have a separable prefix in them


@dataclass(frozen=True)
class Form:
    """One way to understand a word: its class and lemma, and which form of it this is."""

    of: WordClass
    lemma: str
    form: str


class WordForms:
    """The forms of a lexicon, looked up from either end."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar) -> None:
        self.lexicon = lexicon
        self.grammar = grammar
        self.german = German(lexicon, grammar)
        self.text: dict[Form, str] = {}
        self.readings: dict[str, list[Form]] = {}
        self.paradigms: dict[tuple[WordClass, str], list[Form]] = {}
        for form, text in self.every():
            if form not in self.text:
                self.text[form] = text
                self.readings.setdefault(text, []).append(form)
                self.paradigms.setdefault((form.of, form.lemma), []).append(form)

    def every(self) -> Iterable[tuple[Form, str]]:
        """Every form of every word."""
        for noun in self.lexicon.noun.values():
            numbers: tuple[Number, ...] = ("s", "p") if noun.plural else ("u",)
            for number in numbers:
                for case in self.grammar.cases:
                    yield Form("noun", noun.de, f"{number} {case}"), self.german.noun(noun, number, case)
        for adjective, facts in self.lexicon.adjectives.items():
            for ending in ("e", "en", "er", "es", "em"):
                yield Form("adjective", adjective, ending), (facts.stem or adjective) + ending
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
        frames = self.lexicon.verbs
        return list(dict.fromkeys(verb for name in frames for verb in frames[name] if verb not in self.auxiliaries))

    @cached_property
    def auxiliaries(self) -> list[str]:
        """The verbs that tenses are made with."""
        said = [word for tense in self.grammar.tenses.values() for word in tense.de]
        names = dict.fromkeys(word.partition(".")[0] for word in said)
        return ["haben", "sein", *(name for name in names if name not in ("verb", "auxiliary"))]

    def verb_forms(self, verb: str, of: WordClass) -> Iterable[tuple[Form, str]]:
        for tense in ("present", "past"):
            for person in PERSONS:
                text, prefix = self.german.verb(verb, tense, person)
                yield Form(of, verb, f"{tense} {person}"), text
                if prefix:
                    yield Form(of, verb, f"final {tense} {person}"), prefix + text
        for form in ("infinitive", "participle"):
            text, prefix = self.german.verb(verb, form)
            yield Form(of, verb, form), prefix + text
            if prefix and form == "infinitive":
                yield Form(of, verb, "zu"), f"{prefix}zu{text}"

    def understood(self, words: list[str], index: int, english: Iterable[str]) -> Form | None:
        """A word's one class and lemma at its place, in the first form that fits; None where it is not clear.

        `english`: the words that it is linked with.
        """
        before, after = words[index - 1] if index else "", words[index + 1] if index + 1 < len(words) else ""
        readings = [
            form for form in self.readings.get(words[index], []) if self.stands(form, before, after, set(english))
        ]
        readings = [form for form in readings if form.of == "determiner"] or readings  # `sein`, before its noun
        if len({(form.of, form.lemma) for form in readings}) == 1:
            return readings[0]
        return None

    def stands(self, form: Form, before: str, after: str, english: set[str]) -> bool:
        """Whether a word can be understood so between these two: what the same letters mean is told by its place."""
        noun_follows = after[:1].isupper() or any(each.of == "adjective" for each in self.readings.get(after, []))
        match form.of:
            case "determiner":
                stems = [d for d in (*self.grammar.determiners, self.grammar.negative) if d.stem == form.lemma]
                meant = {word for determiner in stems for word in determiner.en.values()} | {"an", "a", "not"}
                return noun_follows and bool(english & meant) and not english & {"who", "whom", "that", "to"}
            case "adjective":
                return after[:1].isupper()
            case "prefix":
                return after in (*PUNCTUATION, "und", "aber")
        return True

    def class_of(self, words: list[str], index: int, english: Iterable[str]) -> WordClass | None:
        """A word's class; `other` for one that the lexicon does not have, None for a mark or where it is not clear."""
        if words[index] in PUNCTUATION:
            return None
        if form := self.understood(words, index, english):
            return form.of
        return None if words[index] in self.readings else "other"

    def other_forms(self, form: Form, text: str) -> list[str]:
        """How the same word could wrongly be inflected. A verb's finite form stays one, of its tense."""
        same = self.paradigms[form.of, form.lemma]
        if form.of in ("verb", "auxiliary"):
            tenses = {each.form.rpartition(" ")[0] for each in self.same(form, text)}
            if len(tenses) != 1 or tenses == {""}:
                return []
            same = [each for each in same if each.form.rpartition(" ")[0] in tenses]
        return different([self.text[each] for each in same], text)

    def same(self, form: Form, text: str) -> list[Form]:
        """All the forms of a word that have the same letters."""
        return [each for each in self.readings[text] if (each.of, each.lemma) == (form.of, form.lemma)]

    def other_words(self, form: Form, text: str, noun: str | None) -> list[str]:
        """Words of the same kind that have one form where this has one. `noun`: what an adjective describes."""
        match form.of:
            case "noun":
                this = self.lexicon.noun[form.lemma]
                lemmas = [
                    other.de
                    for other in self.lexicon.noun.values()
                    if (other.kind, other.gender, other.weak) == (this.kind, this.gender, this.weak)
                ]
            case "adjective":
                lemmas = [
                    adjective
                    for adjective, facts in self.lexicon.adjectives.items()
                    if noun in self.lexicon.nouns_of(facts.of)
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
        forms = [each.form for each in self.same(form, text)]
        candidates = [{self.text.get(Form(form.of, lemma, each)) for each in forms} for lemma in lemmas]
        return different([word for words in candidates if len(words) == 1 for word in words if word], text)

    def unprefixed(self, form: Form) -> str | None:
        """A verb's form without its separable prefix; None where it has none in it."""
        prefix = form.lemma.rpartition("|")[0]
        if not prefix or form.of != "verb" or form.form.split()[0] not in JOINED:
            return None
        return self.text[form].removeprefix(prefix)


def different(words: Iterable[str], word: str) -> list[str]:
    """Each of them once, in order, but for one."""
    return [each for each in dict.fromkeys(words) if each != word]
