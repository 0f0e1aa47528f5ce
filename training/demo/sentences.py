"""Sentences of the demo world, German and English at once: the grammar's rules, followed by seeded choices.

What is said is chosen once and put into words twice. Words that stand for the same thing carry the same mark, and two
words are aligned when they share one, so the alignment is known and not guessed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, TypeVar

from training.demo.english import English
from training.demo.german import German
from training.demo.lexicon import (
    Case,
    ClauseRule,
    Determiner,
    Frame,
    Grammar,
    Lexicon,
    Noun,
    Number,
    Preposition,
    Pronoun,
    Verb,
)
from training.demo.pairs import UNMARKED, Marks, Pair, Word, Words, links_between

T = TypeVar("T")
PUNCTUATION = ".,?!"


@dataclass(frozen=True)
class Phrase:
    """A part of a clause in both languages. `person` is what a verb agrees with, if the phrase is its subject.

    `visible`: its case can be told from its form, so that it may stand before the verb. `head`: its noun.
    """

    de: Words = ()
    en: Words = ()
    person: int = 2
    pronoun: Pronoun | None = None
    indefinite: bool = False
    visible: bool = False
    head: str | None = None
    gender: str = "n"


@dataclass
class Clause:
    """A clause's parts by the layouts' names, before they are put into an order."""

    rule: ClauseRule
    tense: str
    verb: str
    entry: Verb
    parts: dict[str, Phrase] = field(default_factory=dict)


class NoSuchSentenceError(Exception):
    """The choices made so far leave nothing to say; the sentence is begun again."""


class SentenceGenerator:
    """Says sentences, one after the other; the same seed says the same ones."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar, seed: int) -> None:
        self.lexicon = lexicon
        self.grammar = grammar
        self.german = German(lexicon, grammar)
        self.english = English(lexicon, grammar)
        self.random = Random(seed)
        self.mark = 0
        self.combinations: set[tuple[str, str]] = set()
        self.used: set[str] = set()
        self.kinds: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.fitted: dict[tuple[object, ...], tuple[str, ...]] = {}
        self.describing: dict[str, list[str]] = {noun: [] for noun in lexicon.noun}
        for adjective, facts in lexicon.adjectives.items():
            for noun in lexicon.nouns_of(facts.of):
                self.describing[noun].append(adjective)

    # Choices: only Random.random(), whose numbers are the same in every version of Python.

    def chance(self, name: str) -> bool:
        return self.random.random() < self.grammar.chances[name]

    def choose(self, options: Sequence[T]) -> T:
        if not options:
            raise NoSuchSentenceError
        return options[int(self.random.random() * len(options))]

    def weighted(self, options: Sequence[tuple[T, int]]) -> T:
        point = self.random.random() * sum(weight for _, weight in options)
        for option, weight in options:
            point -= weight
            if point < 0:
                return option
        raise NoSuchSentenceError

    def new_mark(self) -> Marks:
        self.mark += 1
        return frozenset([self.mark])

    def once(self, word: str) -> str:
        """A noun, a name or a verb that the sentence has not used yet."""
        if word in self.used:
            raise NoSuchSentenceError
        self.used.add(word)
        return word

    def nouns_of(self, kinds: Sequence[str]) -> tuple[str, ...]:
        key = tuple(kinds)
        if key not in self.kinds:
            self.kinds[key] = self.lexicon.nouns_of(list(kinds))
        return self.kinds[key]

    # Sentences.

    def sentence(self) -> Pair:
        """The next sentence."""
        while True:
            self.mark = 0
            self.combinations = set()
            self.used = set()
            try:
                return self.attempt()
            except NoSuchSentenceError:
                continue

    def attempt(self) -> Pair:
        rule = self.weighted([(rule, rule.weight) for rule in self.grammar.sentences])
        said: dict[str, Phrase] = {}
        subjects: dict[str, Phrase] = {}
        for name, pairs in rule.choose.items():
            said[name] = self.aligned(*self.choose(pairs))
        for name, asked in rule.clauses.items():
            controller = subjects.get(asked.subject) if isinstance(asked.subject, str) else None
            clause = self.clause(asked, controller)
            subjects[name] = clause.parts["subject"]
            said[name] = self.arranged(clause)
        stop, comma = self.new_mark(), self.new_mark()
        marks = {",": comma} if "," in rule.de and "," in rule.en else {}

        def side(order: list[str], words: dict[str, Words]) -> Words:
            whole: list[Word] = []
            for name in order:
                if name in words:
                    whole.extend(words[name])
                else:
                    whole.append(Word(name, marks.get(name, UNMARKED if name == "," else stop)))
            return tuple(whole)

        de = side(rule.de, {name: phrase.de for name, phrase in said.items()})
        en = side(rule.en, {name: phrase.en for name, phrase in said.items()})
        return self.pair(de, en)

    def pair(self, de: Words, en: Words) -> Pair:
        """Two finished sentences: commas settled, `a` or `an`, a capital first letter, and the links."""
        de, en = one_comma(de), one_comma(self.articles(en))
        return Pair(capitalised(de), capitalised(en), links_between(de, en), frozenset(self.combinations))

    def articles(self, words: Words) -> Words:
        following = [word.text for word in words[1:]] + [""]
        return tuple(
            replace(word, text=self.english.article(after)) if word.text == "a" else word
            for word, after in zip(words, following, strict=True)
        )

    # Words that are not inflected.

    def aligned(self, de: str, en: str) -> Phrase:
        """A fixed expression: words with the same #number belong together, else in order, else all with all."""
        de_words, en_words = de.split(), en.split()
        if "#" in de + en:
            names = {word.rpartition("#")[2]: self.new_mark() for word in de_words + en_words if "#" in word}
            everything = frozenset().union(*names.values())

            def marked(words: list[str]) -> Words:
                return tuple(
                    Word(word.rpartition("#")[0] or word, names[word.rpartition("#")[2]] if "#" in word else everything)
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

    # Noun phrases.

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
        """A noun phrase of one of the kinds.

        `subject`: where English says `I` and not `me`; `plain`: nothing behind the noun; `plural`: that one's chance.
        """
        nouns = self.nouns_of(kinds)
        fixed = negative or which or indefinite
        human = bool(nouns) and nouns[0] in self.nouns_of(["human"])
        if human and pronouns and not fixed and self.chance("pronoun_subject" if subject else "pronoun_object"):
            return self.pronoun(self.choose([p for p in self.grammar.pronouns if getattr(p, case)]), case, subject)
        if human and names and not fixed and case != "genitive" and self.chance("name"):
            gender = self.choose(sorted(self.lexicon.names))
            name = self.once(self.choose(self.lexicon.names[gender]))
            mark = self.new_mark()
            return Phrase((Word(name, mark),), (Word(name, mark),), gender=gender)
        noun = self.lexicon.noun[self.once(self.choose(nouns))]
        number: Number = "u" if noun.plural is None else "p" if self.chance(plural) else "s"
        determiner = self.determiner(
            noun, number, definite=definite, indefinite=indefinite, negative=negative, which=which
        )
        return self.described(noun, number, determiner, case, plain=plain)

    def determiner(
        self, noun: Noun, number: Number, *, definite: bool, indefinite: bool, negative: bool, which: bool
    ) -> Determiner:
        if negative:
            return self.grammar.negative
        if which:
            if number not in self.grammar.which.number:
                raise NoSuchSentenceError
            return self.grammar.which
        return self.weighted(
            [
                (determiner, determiner.weight)
                for determiner in self.grammar.determiners
                if number in determiner.number
                and (not definite or determiner.definite)
                and not (determiner.possessive and noun.de in self.lexicon.unowned)
                and not (indefinite and (determiner.definite or determiner.en.get("s") == "every"))
            ]
        )

    def described(self, noun: Noun, number: Number, determiner: Determiner, case: Case, *, plain: bool) -> Phrase:
        """A determiner, perhaps an adjective, a noun, and perhaps something behind it."""
        de: list[Word] = []
        en: list[Word] = []
        first, last = self.new_mark(), self.new_mark()
        if text := self.german.determiner(determiner, noun, number, case):
            de.append(Word(text, first))
        if text := determiner.en[number]:
            en.append(Word(text, first))
        if self.describing[noun.de] and self.chance("adjective"):
            adjective = self.choose(self.describing[noun.de])
            mark = self.new_mark()
            self.combinations.add((adjective, noun.de))
            de.append(Word(self.german.adjective(adjective, determiner, noun, number, case), mark))
            en.append(Word(self.lexicon.adjectives[adjective].en[0], mark))
        de.append(Word(self.german.noun(noun, number, case), last))
        en.extend(Word(word, last) for word in self.english.noun(noun, number).split())
        person = 4 if number == "p" else 2
        if not plain:
            behind = self.behind(noun, number, determiner)
            de.extend(behind.de)
            en.extend(behind.en)
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

    def behind(self, noun: Noun, number: Number, determiner: Determiner) -> Phrase:
        """What follows a noun: an attribute, a relative clause, or nothing."""
        if self.chance("attribute"):
            fitting = [
                (attribute, attribute.weight)
                for attribute in self.grammar.attributes
                if noun.de in self.nouns_of(attribute.head)
                and (attribute.de or (determiner.definite and not determiner.possessive))
            ]
            if fitting:
                return self.prepositional(self.weighted(fitting))
        elif self.chance("relative"):
            return self.relative(noun, number)
        return Phrase()

    def prepositional(self, preposition: Preposition) -> Phrase:
        """A preposition and its noun; one without a German word is the genitive."""
        behind = self.noun_phrase(
            preposition.of,
            preposition.case,
            definite=preposition.case == "genitive",
            pronouns=not preposition.head,
            plain=True,
            plural="plural_place",
        )
        return self.joined(preposition.de, preposition.en, behind)

    def joined(self, german: str | None, english: str, behind: Phrase) -> Phrase:
        """A preposition before a phrase, with the German article drawn into it where that is done: im, zur."""
        mark = self.new_mark() if german else behind.de[0].marks
        en = (*(Word(word, mark) for word in english.split()), *behind.en)
        if german is None:
            return replace(behind, en=en)
        drawn = self.grammar.german.contractions.get(f"{german} {behind.de[0].text}")
        if drawn and len(behind.de) > 1:
            return replace(behind, de=(Word(drawn, mark | behind.de[0].marks), *behind.de[1:]), en=en)
        return replace(behind, de=(Word(german, mark), *behind.de), en=en)

    def pronoun(self, pronoun: Pronoun, case: Case, subject: bool) -> Phrase:
        mark = self.new_mark()
        de, en = getattr(pronoun, case), pronoun.subject if subject else pronoun.object
        return Phrase((Word(de, mark),), (Word(en, mark),), pronoun.person, pronoun=pronoun)

    def relative(self, noun: Noun, number: Number) -> Phrase:
        """A relative clause. The noun is its object only where German shows it: by `den`, or before a pronoun."""
        human = noun.de in self.nouns_of(["human"])
        mark = self.new_mark()
        person = 4 if number == "p" else 2
        as_object = self.random.random() < 0.5
        case: Case = "accusative" if as_object else "nominative"
        english = "that" if not human else "whom" if as_object else "who"
        pronoun = Phrase(
            (Word(self.german.relative(noun, number, case), mark),), (Word(english, mark),), person, head=noun.de
        )
        rule = self.grammar.relative["object" if as_object else "subject"]
        if as_object:
            shown = noun.gender == "m" and number == "s"
            clause = self.clause(rule, None, object_=pronoun, pronoun_subject=not shown)
        else:
            clause = self.clause(rule, pronoun)
        said = self.arranged(clause)
        return Phrase((Word(","), *said.de, Word(",")), said.en)

    # Clauses.

    def clause(
        self, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None = None, pronoun_subject: bool = False
    ) -> Clause:
        """A clause's parts, chosen. `subject` and `object_` are given where another clause or a noun has said them."""
        frames = self.grammar.frames
        candidates = rule.frames or [name for name, frame in frames.items() if frame.weight]
        frame_name = self.weighted([(name, frames[name].weight or 1) for name in candidates])
        frame = frames[frame_name]
        verbs = self.fitting(frame_name, rule, subject, object_)
        verb = self.once(self.choose(verbs))
        entry = self.lexicon.verbs[frame_name][verb]
        layout = self.grammar.layouts[rule.layout]
        parts: dict[str, Phrase] = {}

        if frame.there:
            parts["subject"] = self.aligned(*frame.there)
        elif isinstance(rule.subject, tuple):
            parts["subject"] = replace(self.aligned(*rule.subject), gender="m")
        elif subject is not None:
            parts["subject"] = subject
        elif pronoun_subject:
            parts["subject"] = self.pronoun(
                self.choose([p for p in self.grammar.pronouns if p.nominative != "sie"]), "nominative", True
            )
        else:
            parts["subject"] = self.noun_phrase(
                entry.subject, "nominative", subject=not frame.swapped, pronouns=not frame.swapped, plain=rule.short
            )
        tense = self.tense(rule, entry, frame.tenses, parts["subject"], frame.swapped)

        self.add_adverbs(rule, entry, tense, parts, timeless=frame.alone and tense == "present")
        negated = (
            "negation" not in rule.without
            and "frequency" not in parts
            and not frame.there
            and tense != "gladly"
            and rule.determiner is None
            and rule.object is None
            and self.chance("negation")
        )
        no_object = negated and frame.object is not None and self.random.random() < 0.5
        if negated and not no_object:
            parts["negation"] = self.aligned("nicht", "not")

        if frame.recipient:
            parts["recipient"] = self.noun_phrase(
                entry.recipient,
                frame.recipient,
                subject=frame.swapped,
                definite=negated and not no_object,
                pronouns=rule.visible != "recipient",
                plain=True,
            )
        if frame.object:
            parts["object"] = object_ or self.object_of(rule, entry, frame, negated=negated, no_object=no_object)
            head = parts["object"].head
            if head:
                self.combinations.add((verb, head))
        if entry.preposition:
            german, case, english = entry.preposition
            behind = self.noun_phrase(
                entry.object, case, definite=negated and not entry.bare, indefinite=entry.bare, plain=True
            )
            if behind.head:
                self.combinations.add((verb, behind.head))
            parts["preposition"] = self.joined(german, "" if english == "-" else english, behind)
            if english == "-":
                marks = parts["preposition"].de[0].marks
                first = parts["preposition"].en[0]
                parts["preposition"] = replace(
                    parts["preposition"], en=(replace(first, marks=first.marks | marks), *parts["preposition"].en[1:])
                )
        self.add_places(rule, entry, frame_name, parts)
        if frame.predicate:
            parts["predicate"] = self.predicate(parts["subject"])
        if any(need not in parts for need in rule.needs):
            raise NoSuchSentenceError
        if rule.visible and not parts[rule.visible].visible:
            raise NoSuchSentenceError
        if no_object:
            parts["not"] = Phrase(en=(Word("not", parts["object"].de[0].marks),))  # the mark of kein-
        elif "negation" in parts:
            parts["not"] = parts["negation"]
        clause = Clause(rule, tense, verb, entry, parts)
        self.add_verb(
            clause, frame.reflexive or entry.reflexive, layout.question, layout.final, frame.swapped, bool(frame.there)
        )
        if frame.english and "recipient" in parts:
            recipient = parts["recipient"]
            parts["recipient"] = replace(
                recipient, en=(*(Word(word, recipient.de[0].marks) for word in frame.english.split()), *recipient.en)
            )
        return clause

    def fitting(self, frame: str, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None) -> tuple[str, ...]:
        """The verbs of a frame that a clause can have; found once for each rule, subject and object."""
        key = (frame, id(rule), subject and (subject.head or "human"), object_ and object_.head)
        if key not in self.fitted:
            self.fitted[key] = tuple(
                verb for verb, entry in self.lexicon.verbs[frame].items() if self.fits(entry, rule, subject, object_)
            )
        return self.fitted[key]

    def fits(self, entry: Verb, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None) -> bool:
        """Whether a verb can have the subject and the object that are given, and what the rule asks for."""
        if subject is not None and not self.can_be(subject, entry.subject):
            return False
        if object_ is not None and object_.head not in self.nouns_of(entry.object):
            return False
        if isinstance(rule.subject, tuple) and not set(self.nouns_of(["human"])) <= set(self.nouns_of(entry.subject)):
            return False
        if rule.of and not set(self.nouns_of(rule.of)) & set(self.nouns_of(entry.object)):
            return False
        if "place" in rule.without and entry.needs_place and not rule.somewhere:
            return False
        return bool(entry.place) or not rule.somewhere

    def can_be(self, phrase: Phrase, kinds: Sequence[str]) -> bool:
        allowed = self.nouns_of(kinds)
        if phrase.head is None:  # a name or a pronoun: somebody
            return set(self.nouns_of(["human"])) <= set(allowed)
        return phrase.head in allowed

    def tense(self, rule: ClauseRule, entry: Verb, allowed: list[str], subject: Phrase, swapped: bool) -> str:
        person = subject.pronoun.person if subject.pronoun else None
        willing = not swapped and (subject.head is None or subject.head in self.nouns_of(["human"]))
        fitting = []
        for name, tense in self.grammar.tenses.items():
            if rule.tenses and name not in rule.tenses:
                continue
            if not rule.tenses and not tense.weight:
                continue
            if allowed and name not in allowed and rule.tenses != [name]:
                continue
            if name in self.grammar.willing and not willing:
                continue
            if entry.state and name in self.grammar.not_for_states:
                continue
            if entry.moment and name in self.grammar.not_for_moments:
                continue
            if name in self.grammar.needs_time and "time" in rule.without:
                continue
            if name == "preterite" and person == 1:
                continue
            fitting.append((name, tense.weight or 1))
        if not fitting:
            raise NoSuchSentenceError
        return self.weighted(fitting)

    def add_adverbs(
        self, rule: ClauseRule, entry: Verb, tense: str, parts: dict[str, Phrase], *, timeless: bool
    ) -> None:
        adverbs = self.lexicon.adverbs
        needed = "time" in rule.needs or tense in self.grammar.needs_time
        short = rule.short and not needed
        if "time" not in rule.without and not timeless and (needed or (not short and self.chance("time"))):
            if tense in self.grammar.when_tenses and self.chance("when"):
                parts["time"] = self.prepositional(
                    self.weighted([(p, p.weight) for p in self.grammar.prepositions["when"]])
                )
            else:
                fitting = [(de, adverb.en) for de, adverb in adverbs["time"].items() if tense in adverb.tenses]
                if fitting:
                    parts["time"] = self.aligned(*self.choose(fitting))
        if "time" not in parts and "frequency" not in rule.without and self.chance("frequency"):
            fitting = [(de, adverb.en) for de, adverb in adverbs["frequency"].items() if tense in adverb.tenses]
            if fitting:
                parts["frequency"] = self.aligned(*self.choose(fitting))
        if "manner" not in rule.without and entry.manner and tense != "gladly" and self.chance("manner"):
            parts["manner"] = self.aligned(
                *self.choose([(de, adverb.en) for de, adverb in adverbs[entry.manner].items()])
            )

    def object_of(self, rule: ClauseRule, entry: Verb, frame: Frame, *, negated: bool, no_object: bool) -> Phrase:
        assert frame.object is not None
        if rule.object:
            return self.aligned(*rule.object)
        return self.noun_phrase(
            entry.object,
            frame.object,
            definite=negated and not no_object,
            indefinite=frame.there is not None,
            negative=no_object,
            which=rule.determiner == "which",
            pronouns=not (entry.particle or frame.recipient or rule.visible),
            names=not frame.recipient,
            plain=rule.short or negated or frame.goal or frame.there is not None,
        )

    def add_places(self, rule: ClauseRule, entry: Verb, frame: str, parts: dict[str, Phrase]) -> None:
        prepositions = self.grammar.prepositions
        if self.grammar.frames[frame].goal:
            parts["goal"] = self.placed("goal", entry.goal, entry.by)
        needed = "place" in rule.needs or entry.needs_place
        if "place" not in rule.without and (needed or (not rule.short and entry.place and self.chance("place"))):
            kinds = entry.place or (["indoors", "outdoors", "field", "ground"] if frame == "existence" else [])
            if not kinds:
                raise NoSuchSentenceError
            parts["place"] = self.placed("place", kinds)
        human = self.can_be(parts["subject"], ["human"])
        together = entry.company and human and not rule.short and "place" not in parts
        if together and "company" not in rule.without and self.chance("company"):
            parts["company"] = self.prepositional(self.weighted([(p, p.weight) for p in prepositions["company"]]))

    def placed(self, role: Literal["place", "goal"], kinds: Sequence[str], by: Sequence[str] = ()) -> Phrase:
        """Where or whereto: a place of these kinds, with a preposition that suits it (and the verb, if it says so)."""
        place = self.choose(self.nouns_of(kinds))
        options = [
            (p, p.weight)
            for p in self.grammar.prepositions[role]
            if place in self.nouns_of(p.of) and (not by or p.de in by)
        ]
        if not options:
            raise NoSuchSentenceError
        return self.prepositional(self.weighted(options).model_copy(update={"of": [place]}))

    def predicate(self, subject: Phrase) -> Phrase:
        """What somebody or something is: an adjective, a comparison, a profession, or where it is."""
        human = self.can_be(subject, ["human"])
        fitting = self.describing[subject.head] if subject.head else self.describing["Freund"]
        point = self.random.random()
        family = (
            subject.head is None or subject.head in self.nouns_of(["family", "Freund", "Freundin"]) if human else False
        )
        if (
            family
            and point < 0.25
            and subject.person in (2, 4)
            and subject.gender in ("m", "f")
            and subject.pronoun is None
        ):
            jobs = [job for job in self.nouns_of(["profession"]) if self.lexicon.noun[job].gender == subject.gender]
            noun = self.lexicon.noun[self.choose(jobs)]
            number: Number = "p" if subject.person == 4 else "s"
            mark = self.new_mark()
            article = (Word("a", mark),) if number == "s" else ()
            english = tuple(Word(word, mark) for word in self.english.noun(noun, number).split())
            return Phrase((Word(self.german.noun(noun, number, "nominative"), mark),), article + english, head=noun.de)
        adjective = self.choose(fitting)
        facts = self.lexicon.adjectives[adjective]
        if subject.head:
            self.combinations.add((adjective, subject.head))
        mark = self.new_mark()
        if len(facts.en) == 3 and point < 0.5:
            than = self.new_mark()
            other = self.noun_phrase([subject.head or "human"], "nominative", plain=True)
            if subject.head:
                other = self.noun_phrase([self.lexicon.noun[subject.head].kind], "nominative", plain=True)
                if other.head is not None and adjective not in self.describing[other.head]:
                    raise NoSuchSentenceError
            return Phrase(
                (Word(facts.en[1], mark), Word("als", than), *other.de),
                (*(Word(word, mark) for word in facts.en[2].split()), Word("than", than), *other.en),
                head=other.head,
            )
        return Phrase((Word(adjective, mark),), (Word(facts.en[0], mark),))

    # Verbs.

    def add_verb(
        self, clause: Clause, reflexive: bool, question: bool, final: bool, swapped: bool, there: bool
    ) -> None:
        """The verb group of both languages: finite and end; operator and rest."""
        parts, tense = clause.parts, self.grammar.tenses[clause.tense]
        aux, main, prefix = self.new_mark(), self.new_mark(), self.new_mark()
        subject = parts["subject"]
        agreeing = parts["recipient"] if swapped else parts["object"] if there else subject
        if reflexive:
            pronoun = subject.pronoun.reflexive if subject.pronoun else "sich"
            parts["reflexive"] = Phrase((Word(pronoun, main | prefix),))

        german = [self.german_word(form, clause, subject.person, aux, main, prefix) for form in tense.de]
        if len(german) == 1 and tense.particle is None:
            german = [also(german[0], aux)]
        if tense.particle:
            parts["gern"] = Phrase((Word(tense.particle, aux),))
        finite, ends = german[0], [word for words in german[1:] for word in words]
        if len(german) == 1 and len(finite) == 2 and tense.de != ["verb.zu"]:
            stem, separate = finite
            finite, ends = (
                ((Word(separate.text + stem.text, stem.marks | separate.marks),), [])
                if final
                else ((stem,), [separate])
            )
        parts["finite"] = Phrase(finite)
        parts["end"] = Phrase(tuple(ends))

        english = [self.english_word(form, clause, agreeing.person, aux, main, prefix) for form in tense.en]
        if len(english) == 1:
            english = [also(english[0], aux)]
        negated = "not" in parts
        is_be = tense.en[0].startswith("be.") or (clause.entry.en == "be" and tense.en[0].startswith("verb."))
        if tense.en[0] in self.grammar.english.auxiliaries or is_be:
            operator, rest = english[0], english[1:]
        elif (negated or question) and not self.asks_who(clause):
            verb, _, form = tense.en[0].partition(".")
            operator = (Word(self.english.verb("do", form, agreeing.person), aux),)
            plain = self.english_word(f"{verb}.base", clause, agreeing.person, aux, main, prefix)
            if len(english) == 1:
                plain = tuple(replace(word, marks=word.marks - aux) for word in plain)
            rest = [plain, *english[1:]]
        else:
            operator, rest = (), english
        if operator and operator[0].text == "can" and negated:
            operator = (Word("cannot", operator[0].marks | parts["not"].en[0].marks),)
            if question:
                raise NoSuchSentenceError
            parts["not"] = Phrase()
        parts["operator"] = Phrase(en=operator)
        parts["rest"] = Phrase(en=tuple(word for words in rest for word in words))

    def asks_who(self, clause: Clause) -> bool:
        return isinstance(clause.rule.subject, tuple) and "not" not in clause.parts

    def german_word(self, form: str, clause: Clause, person: int, aux: Marks, main: Marks, prefix: Marks) -> Words:
        """One item of a tense's German side. A separable verb's finite form is two words: the form, the prefix."""
        name, _, shape = form.partition(".")
        if name == "auxiliary":
            name = "sein" if clause.verb in self.lexicon.with_sein else "haben"
            if clause.verb == "geben" and "there" in clause.rule.layout:
                name = "haben"
        if name != "verb":
            return (Word(self.german.verb(name, shape, person)[0], aux),)
        if shape == "zu":
            base, before = self.german.verb(clause.verb, "infinitive")
            if before:
                return (Word(f"{before}zu{base}", aux | main | prefix),)
            return Word("zu", aux), Word(base, main | prefix)
        text, before = self.german.verb(clause.verb, shape, person)
        if not before:
            return (Word(text, main | prefix),)
        if shape in ("infinitive", "participle"):
            return (Word(before + text, main | prefix),)
        return Word(text, main), Word(before, prefix)

    def english_word(self, form: str, clause: Clause, person: int, aux: Marks, main: Marks, prefix: Marks) -> Words:
        name, _, shape = form.partition(".")
        if not shape:
            return (Word(name, aux),)
        if name != "verb":
            return (Word(self.english.verb(name, shape, person), aux),)
        verb, *behind = clause.entry.en.split()
        first = Word(self.english.verb(verb, shape, person), main if behind else main | prefix)
        return first, *(Word(word, prefix) for word in behind)

    # Order.

    def arranged(self, clause: Clause) -> Phrase:
        """A clause's parts in the order of its layout."""
        layout = self.grammar.layouts[clause.rule.layout]
        parts = dict(clause.parts)
        frame = next(name for name, verbs in self.lexicon.verbs.items() if verbs.get(clause.verb) is clause.entry)
        german = dict(parts)
        if "sich" in layout.de and "reflexive" in german and not parts["subject"].pronoun:
            german["sich"] = german.pop("reflexive")
        if "sich" in layout.de and self.grammar.frames[frame].swapped and german["recipient"].pronoun:
            german["sich"] = german.pop("recipient")
        if "manner" in german and "object" in german and german["object"].indefinite and "early" in layout.de:
            german["early"] = german.pop("manner")
        for name in ("recipient", "object"):
            if name in german and german[name].pronoun and layout.de[0] != name and "pronoun" in layout.de:
                german["pronoun"] = german.pop(name)
        english = dict(parts)
        if self.grammar.frames[frame].swapped:
            english["subject"], english["object"] = parts["recipient"], parts["subject"]
            del english["recipient"]
        if clause.rule.layout == "infinitive":
            english.pop("subject")
        for name, literal in self.grammar.literals.items():
            if name in layout.de:
                german[name] = english[name] = self.aligned(*literal)
        if "comma" in layout.en:
            english["comma"] = Phrase(en=(Word(","),))
        return Phrase(
            tuple(word for name in layout.de if name in german for word in german[name].de),
            tuple(word for name in layout.en if name in english for word in english[name].en),
        )


def also(words: Words, marks: Marks) -> Words:
    """The same words, the first of which stands for these things too."""
    return replace(words[0], marks=words[0].marks | marks), *words[1:]


def one_comma(words: Iterable[Word]) -> Words:
    """No comma before another mark, and none at the beginning."""
    kept: list[Word] = []
    for word in words:
        if word.text in PUNCTUATION and kept and kept[-1].text == ",":
            kept.pop()
        kept.append(word)
    return tuple(kept)


def capitalised(words: Words) -> tuple[str, ...]:
    first, *others = (word.text for word in words)
    return (first[0].upper() + first[1:], *others)


def written(words: Sequence[str]) -> str:
    """A sentence as it is written: no space before a punctuation mark."""
    return "".join(word if index == 0 or word in PUNCTUATION else f" {word}" for index, word in enumerate(words))
