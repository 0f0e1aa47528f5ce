"""Noun phrases, prepositional phrases and pronouns, in German and English at once."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.demo_world.choices import NoChoiceError
from tools.demo_world.grammar.generator import Generator
from tools.demo_world.grammar.german import German
from tools.demo_world.grammar.lexicon import Case, Determiner, Grammar, Lexicon, Noun, Number, Preposition, Pronoun
from tools.demo_world.pairs import Pair, Word, Words


@dataclass(frozen=True)
class Phrase:
    """A constituent of a clause in both languages.

    `person`: for agreement with the verb, 0 to 4. `visible`: the German form shows the case, so that the phrase may
    precede the verb. `head`: the German singular of its noun. `gender`: German.
    """

    de: Words = ()
    en: Words = ()
    person: int = 2
    pronoun: Pronoun | None = None
    indefinite: bool = False
    visible: bool = False
    head: str | None = None
    gender: str = "n"


class PhraseGenerator(Generator[Pair]):
    """Generates phrases. Words that correspond to each other have the same alignment mark."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar, seed: int) -> None:
        super().__init__(lexicon, grammar, seed)
        self.german = German(lexicon, grammar)

    @abstractmethod
    def relative_clause(self, noun: Noun, number: Number) -> Phrase:
        """A relative clause about a noun, with its commas in German."""

    def chance(self, name: str) -> bool:
        """True with the grammar's probability of this name."""
        return self.choices.chance(self.grammar.chances[name])

    def fixed_expression(self, de: str, en: str) -> Phrase:
        """Words that are not inflected.

        Words with the same #number are aligned; without numbers, words in order if both sides have the same number
        of them, otherwise each with each.
        """
        de_words, en_words = de.split(), en.split()
        if "#" in de + en:
            marks_of = {word.rpartition("#")[2]: self.new_mark() for word in de_words + en_words if "#" in word}
            all_marks = frozenset().union(*marks_of.values())

            def marked(words: list[str]) -> Words:
                return tuple(
                    Word(
                        word.rpartition("#")[0] or word,
                        marks_of[word.rpartition("#")[2]] if "#" in word else all_marks,
                    )
                    for word in words
                )

            return Phrase(marked(de_words), marked(en_words))
        if len(de_words) == len(en_words):
            marks = [self.new_mark() for _ in de_words]
        else:
            marks = [self.new_mark()] * max(len(de_words), len(en_words))
        return Phrase(
            tuple(Word(word, mark) for word, mark in zip(de_words, marks, strict=False)),
            tuple(Word(word, mark) for word, mark in zip(en_words, marks, strict=False)),
        )

    def noun_phrase(
        self,
        kinds: Sequence[str],
        case: Case,
        *,
        subject: bool = False,
        definite: bool = False,
        indefinite: bool = False,
        negative: bool = False,
        which: bool = False,
        pronouns: bool = False,
        names: bool = True,
        plain: bool = False,
        plural: str = "plural",
    ) -> Phrase:
        """A noun phrase with a noun of one of the kinds.

        `subject`: it is the subject in English, `I` and not `me`. `pronouns`, `names`: these are allowed. `plain`:
        without attribute and relative clause. `plural`: the name of the plural's probability.
        """
        nouns = self.nouns_of(kinds)
        fixed = negative or which or indefinite
        human = bool(nouns) and nouns[0] in self.nouns_of(["human"])
        if human and pronouns and not fixed and self.chance("pronoun_subject" if subject else "pronoun_object"):
            return self.pronoun(self.choices.one([p for p in self.grammar.pronouns if getattr(p, case)]), case, subject)
        if human and names and not fixed and case != "genitive" and self.chance("name"):
            gender = self.choices.one(sorted(self.lexicon.names))
            name = self.use_once(self.choices.one(self.lexicon.names[gender]))
            mark = self.new_mark()
            return Phrase((Word(name, mark),), (Word(name, mark),), gender=gender)
        noun = self.lexicon.noun[self.use_once(self.choices.one(nouns))]
        number: Number = "u" if noun.plural is None else "p" if self.chance(plural) else "s"
        determiner = self.determiner(
            noun, number, definite=definite, indefinite=indefinite, negative=negative, which=which
        )
        return self.expand_noun(noun, number, determiner, case, plain=plain)

    def determiner(
        self, noun: Noun, number: Number, *, definite: bool, indefinite: bool, negative: bool, which: bool
    ) -> Determiner:
        """A determiner that agrees with the noun and has the required features."""
        if negative:
            return self.grammar.negative
        if which:
            if number not in self.grammar.which.number:
                raise NoChoiceError
            return self.grammar.which
        return self.choices.weighted(
            [
                (determiner.weight, determiner)
                for determiner in self.grammar.determiners
                if number in determiner.number
                and (not definite or determiner.definite)
                and not (determiner.possessive and noun.de in self.lexicon.unowned)
                and not (indefinite and (determiner.definite or determiner.en.get("s") == "every"))
            ]
        )

    def expand_noun(self, noun: Noun, number: Number, determiner: Determiner, case: Case, *, plain: bool) -> Phrase:
        """Determiner, optional adjective, noun, and unless `plain` an optional attribute or relative clause."""
        de: list[Word] = []
        en: list[Word] = []
        determiner_mark, noun_mark = self.new_mark(), self.new_mark()
        if text := self.german.determiner(determiner, noun, number, case):
            de.append(Word(text, determiner_mark))
        if text := determiner.en[number]:
            en.append(Word(text, determiner_mark))
        if self.adjectives_of[noun.de] and self.chance("adjective"):
            adjective = self.choices.one(self.adjectives_of[noun.de])
            mark = self.new_mark()
            self.combinations.add((adjective, noun.de))
            de.append(Word(self.german.adjective(adjective, determiner, noun, number, case), mark))
            en.append(Word(self.lexicon.adjectives[adjective].en[0], mark))
        de.append(Word(self.german.noun(noun, number, case), noun_mark))
        en.extend(Word(word, noun_mark) for word in self.english.noun(noun, number).split())
        person = 4 if number == "p" else 2
        if not plain:
            modifier = self.modifier(noun, number, determiner)
            de.extend(modifier.de)
            en.extend(modifier.en)
        article = determiner.forms is not None and not (determiner.stem == "" and not determiner.definite)
        return Phrase(
            tuple(de),
            tuple(en),
            person,
            indefinite=not determiner.definite,
            visible=article and number == "s" and (noun.gender == "m" or (case == "dative" and noun.gender == "n")),
            head=noun.de,
            gender=noun.gender,
        )

    def modifier(self, noun: Noun, number: Number, determiner: Determiner) -> Phrase:
        """What follows a noun: a prepositional or genitive attribute, a relative clause, or nothing."""
        if self.chance("attribute"):
            fitting = [
                (attribute.weight, attribute)
                for attribute in self.grammar.attributes
                if noun.de in self.nouns_of(attribute.head)
                and (attribute.de or (determiner.definite and not determiner.possessive))
            ]
            if fitting:
                return self.prepositional_phrase(self.choices.weighted(fitting))
        elif self.chance("relative"):
            return self.relative_clause(noun, number)
        return Phrase()

    def prepositional_phrase(self, preposition: Preposition) -> Phrase:
        """A preposition and a noun phrase; the genitive if the preposition has no German word."""
        complement = self.noun_phrase(
            preposition.of,
            preposition.case,
            definite=preposition.case == "genitive",
            pronouns=not preposition.head,
            plain=True,
            plural="plural_place",
        )
        return self.with_preposition(preposition.de, preposition.en, complement)

    def with_preposition(self, german: str | None, english: str, complement: Phrase) -> Phrase:
        """A preposition and its complement; in German contracted with the article where possible: im, zur."""
        mark = self.new_mark() if german else complement.de[0].marks
        en = (*(Word(word, mark) for word in english.split()), *complement.en)
        if german is None:
            return replace(complement, en=en)
        contraction = self.grammar.german.contractions.get(f"{german} {complement.de[0].text}")
        if contraction and len(complement.de) > 1:
            first = Word(contraction, mark | complement.de[0].marks)
            return replace(complement, de=(first, *complement.de[1:]), en=en)
        return replace(complement, de=(Word(german, mark), *complement.de), en=en)

    def pronoun(self, pronoun: Pronoun, case: Case, subject: bool) -> Phrase:
        """A personal pronoun in a case; `subject`: it is the subject in English."""
        mark = self.new_mark()
        de, en = getattr(pronoun, case), pronoun.subject if subject else pronoun.object
        return Phrase((Word(de, mark),), (Word(en, mark),), pronoun.person, pronoun=pronoun)
