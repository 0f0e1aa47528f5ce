"""The verb group of a clause: finite verb, auxiliaries, participles and infinitives in both languages."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tools.demo_world.choices import NoChoiceError
from tools.demo_world.grammar.english import English
from tools.demo_world.grammar.german import German
from tools.demo_world.grammar.lexicon import ClauseRule, Frame, Grammar, Lexicon, Verb
from tools.demo_world.grammar.phrases import Phrase
from tools.demo_world.pairs import Marks, Word, Words


@dataclass
class Clause:
    """A clause before its constituents are ordered; `parts`: constituents by their names in the grammar's layouts."""

    rule: ClauseRule
    tense: str
    verb: str
    entry: Verb
    parts: dict[str, Phrase] = field(default_factory=dict)


@dataclass(frozen=True)
class VerbMarks:
    """The alignment marks of a verb group."""

    auxiliary: Marks
    stem: Marks
    prefix: Marks  # German separable prefix, English particle


class VerbGroups:
    """Adds verb groups to clauses."""

    def __init__(
        self, lexicon: Lexicon, grammar: Grammar, german: German, english: English, new_mark: Callable[[], Marks]
    ) -> None:
        self.lexicon = lexicon
        self.grammar = grammar
        self.german = german
        self.english = english
        self.new_mark = new_mark

    def add(self, clause: Clause, frame: Frame) -> None:
        """Add the parts `finite` and `end` (German), `operator` and `rest` (English), `reflexive` and `gern`.

        Raises NoChoiceError for a negated question with `can`.
        """
        marks = VerbMarks(self.new_mark(), self.new_mark(), self.new_mark())
        self.add_german(clause, marks, reflexive=frame.reflexive or clause.entry.reflexive)
        parts = clause.parts
        subject = parts["recipient"] if frame.swapped else parts["object"] if frame.there else parts["subject"]
        self.add_english(clause, marks, subject.person)

    def add_german(self, clause: Clause, marks: VerbMarks, *, reflexive: bool) -> None:
        parts, tense = clause.parts, self.grammar.tenses[clause.tense]
        subject = parts["subject"]
        if reflexive:
            pronoun = subject.pronoun.reflexive if subject.pronoun else "sich"
            parts["reflexive"] = Phrase((Word(pronoun, marks.stem | marks.prefix),))
        words = [self.german_word(form, clause, subject.person, marks) for form in tense.de]
        if len(words) == 1 and tense.particle is None:
            words = [add_marks(words[0], marks.auxiliary)]
        if tense.particle:
            parts["gern"] = Phrase((Word(tense.particle, marks.auxiliary),))
        finite, end = words[0], [word for each in words[1:] for word in each]
        if len(words) == 1 and len(finite) == 2 and tense.de != ["verb.zu"]:
            stem, prefix = finite
            if self.grammar.layouts[clause.rule.layout].final:
                finite, end = (Word(prefix.text + stem.text, stem.marks | prefix.marks),), []
            else:
                finite, end = (stem,), [prefix]
        parts["finite"] = Phrase(finite)
        parts["end"] = Phrase(tuple(end))

    def add_english(self, clause: Clause, marks: VerbMarks, person: int) -> None:
        parts, tense = clause.parts, self.grammar.tenses[clause.tense]
        question, negated = self.grammar.layouts[clause.rule.layout].question, "not" in parts
        words = [self.english_word(form, clause, person, marks) for form in tense.en]
        if len(words) == 1:
            words = [add_marks(words[0], marks.auxiliary)]
        is_be = tense.en[0].startswith("be.") or (clause.entry.en == "be" and tense.en[0].startswith("verb."))
        asks_for_subject = isinstance(clause.rule.subject, tuple) and not negated  # without `do`: who sees ...?
        if tense.en[0] in self.grammar.english.auxiliaries or is_be:
            operator, rest = words[0], words[1:]
        elif (negated or question) and not asks_for_subject:
            verb, _, form = tense.en[0].partition(".")
            operator = (Word(self.english.verb("do", form, person), marks.auxiliary),)
            base = self.english_word(f"{verb}.base", clause, person, marks)
            if len(words) == 1:
                base = tuple(replace(word, marks=word.marks - marks.auxiliary) for word in base)
            rest = [base, *words[1:]]
        else:
            operator, rest = (), words
        if operator and operator[0].text == "can" and negated:
            operator = (Word("cannot", operator[0].marks | parts["not"].en[0].marks),)
            if question:
                raise NoChoiceError
            parts["not"] = Phrase()
        parts["operator"] = Phrase(en=operator)
        parts["rest"] = Phrase(en=tuple(word for each in rest for word in each))

    def german_word(self, item: str, clause: Clause, person: int, marks: VerbMarks) -> Words:
        """An item of a tense's German side; a finite form and its separable prefix are two words."""
        name, _, form = item.partition(".")
        if name == "auxiliary":
            name = "sein" if clause.verb in self.lexicon.with_sein else "haben"
        if name != "verb":
            return (Word(self.german.verb(name, form, person)[0], marks.auxiliary),)
        verb_marks = marks.stem | marks.prefix
        if form == "zu":
            base, prefix = self.german.verb(clause.verb, "infinitive")
            if prefix:
                return (Word(f"{prefix}zu{base}", marks.auxiliary | verb_marks),)
            return Word("zu", marks.auxiliary), Word(base, verb_marks)
        text, prefix = self.german.verb(clause.verb, form, person)
        if not prefix:
            return (Word(text, verb_marks),)
        if form in ("infinitive", "participle"):
            return (Word(prefix + text, verb_marks),)
        return Word(text, marks.stem), Word(prefix, marks.prefix)

    def english_word(self, item: str, clause: Clause, person: int, marks: VerbMarks) -> Words:
        """An item of a tense's English side; several words for a verb with a particle."""
        name, _, form = item.partition(".")
        if not form:
            return (Word(name, marks.auxiliary),)
        if name != "verb":
            return (Word(self.english.verb(name, form, person), marks.auxiliary),)
        verb, *particle = clause.entry.en.split()
        first = Word(self.english.verb(verb, form, person), marks.stem if particle else marks.stem | marks.prefix)
        return first, *(Word(word, marks.prefix) for word in particle)


def add_marks(words: Words, marks: Marks) -> Words:
    """The words, the first with additional alignment marks."""
    return replace(words[0], marks=words[0].marks | marks), *words[1:]
