"""Clauses: their constituents, chosen by frame and verb, then ordered by a layout."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tools.demo_world.choices import NoChoiceError
from tools.demo_world.grammar.lexicon import Case, ClauseRule, Frame, Grammar, Lexicon, Noun, Number, Verb
from tools.demo_world.grammar.phrases import Phrase, PhraseGenerator
from tools.demo_world.grammar.verb_group import Clause, VerbGroups
from tools.demo_world.pairs import Word


class ClauseGenerator(PhraseGenerator):
    """Generates clauses, whose noun phrases may contain relative clauses."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar, seed: int) -> None:
        super().__init__(lexicon, grammar, seed)
        self.verb_groups = VerbGroups(lexicon, grammar, self.german, self.english, self.new_mark)
        self.verb_cache: dict[tuple[object, ...], tuple[str, ...]] = {}

    def relative_clause(self, noun: Noun, number: Number) -> Phrase:
        """A relative clause, with its commas in German.

        The noun is its object only if German shows that: by `den`, or by a pronoun as subject.
        """
        human = noun.de in self.nouns_of(["human"])
        mark = self.new_mark()
        person = 4 if number == "p" else 2
        as_object = self.choices.chance(0.5)
        case: Case = "accusative" if as_object else "nominative"
        german, english = (
            self.german.relative_pronoun(noun, number, case),
            "that" if not human else "whom" if as_object else "who",
        )
        pronoun = Phrase((Word(german, mark),), (Word(english, mark),), person, head=noun.de)
        rule = self.grammar.relative["object" if as_object else "subject"]
        if as_object:
            visible = noun.gender == "m" and number == "s"
            clause = self.clause(rule, None, object_=pronoun, pronoun_subject=not visible)
        else:
            clause = self.clause(rule, pronoun)
        ordered = self.ordered(clause)
        return Phrase((Word(","), *ordered.de, Word(",")), ordered.en)

    def clause(
        self, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None = None, pronoun_subject: bool = False
    ) -> Clause:
        """A clause that follows a rule. Raises NoChoiceError.

        `subject`, `object_`: given by another clause or by the noun of a relative clause. `pronoun_subject`: the
        subject is a pronoun whose form shows its case.
        """
        frames = self.grammar.frames
        names = rule.frames or [name for name, frame in frames.items() if frame.weight]
        frame_name = self.choices.weighted([(frames[name].weight or 1, name) for name in names])
        frame = frames[frame_name]
        verb = self.use_once(self.choices.one(self.fitting_verbs(frame_name, rule, subject, object_)))
        entry = self.lexicon.verbs[frame_name][verb]
        parts: dict[str, Phrase] = {}

        if frame.there:
            parts["subject"] = self.fixed_expression(*frame.there)
        elif isinstance(rule.subject, tuple):
            parts["subject"] = replace(self.fixed_expression(*rule.subject), gender="m")
        elif subject is not None:
            parts["subject"] = subject
        elif pronoun_subject:
            pronouns = [pronoun for pronoun in self.grammar.pronouns if pronoun.nominative != "sie"]
            parts["subject"] = self.pronoun(self.choices.one(pronouns), "nominative", subject=True)
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
        no_object = negated and frame.object is not None and self.choices.chance(0.5)  # `kein` with the object
        if negated and not no_object:
            parts["negation"] = self.fixed_expression("nicht", "not")

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
            parts["object"] = object_ or self.object_phrase(rule, entry, frame, negated=negated, no_object=no_object)
            head = parts["object"].head
            if head:
                self.combinations.add((verb, head))
        if entry.preposition:
            parts["preposition"] = self.prepositional_object(verb, entry, negated=negated)
        self.add_places(rule, entry, frame_name, parts)
        if frame.predicate:
            parts["predicate"] = self.predicate(parts["subject"])
        if any(part not in parts for part in rule.needs):
            raise NoChoiceError
        if rule.visible and not parts[rule.visible].visible:
            raise NoChoiceError
        if no_object:
            parts["not"] = Phrase(en=(Word("not", parts["object"].de[0].marks),))  # aligned with `kein`
        elif "negation" in parts:
            parts["not"] = parts["negation"]
        clause = Clause(rule, tense, verb, entry, parts)
        self.verb_groups.add(clause, frame)
        if frame.english and "recipient" in parts:
            recipient = parts["recipient"]
            preposition = (Word(word, recipient.de[0].marks) for word in frame.english.split())
            parts["recipient"] = replace(recipient, en=(*preposition, *recipient.en))
        return clause

    # Verb and tense.

    def fitting_verbs(
        self, frame: str, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None
    ) -> tuple[str, ...]:
        """The verbs of a frame that a clause may have, cached by rule, subject and object."""
        key = (frame, id(rule), subject and (subject.head or "human"), object_ and object_.head)
        if key not in self.verb_cache:
            verbs = self.lexicon.verbs[frame].items()
            self.verb_cache[key] = tuple(verb for verb, entry in verbs if self.fits(entry, rule, subject, object_))
        return self.verb_cache[key]

    def fits(self, entry: Verb, rule: ClauseRule, subject: Phrase | None, object_: Phrase | None) -> bool:
        """Whether a verb can have the given subject and object, and fulfils the rule."""
        if subject is not None and not self.is_of(subject, entry.subject):
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

    def is_of(self, phrase: Phrase, kinds: Sequence[str]) -> bool:
        """Whether a phrase's noun is of one of the kinds; a name or a pronoun counts as human."""
        allowed = self.nouns_of(kinds)
        if phrase.head is None:
            return set(self.nouns_of(["human"])) <= set(allowed)
        return phrase.head in allowed

    def tense(self, rule: ClauseRule, entry: Verb, allowed: list[str], subject: Phrase, swapped: bool) -> str:
        """The name of a tense that the rule, the frame (`allowed`), the verb and the subject permit."""
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
            fitting.append((tense.weight or 1, name))
        if not fitting:
            raise NoChoiceError
        return self.choices.weighted(fitting)

    # Constituents.

    def add_adverbs(
        self, rule: ClauseRule, entry: Verb, tense: str, parts: dict[str, Phrase], *, timeless: bool
    ) -> None:
        """Add the optional parts `time`, `frequency` and `manner`; `timeless`: without time."""
        adverbs = self.lexicon.adverbs
        needed = "time" in rule.needs or tense in self.grammar.needs_time
        short = rule.short and not needed
        if "time" not in rule.without and not timeless and (needed or (not short and self.chance("time"))):
            if tense in self.grammar.when_tenses and self.chance("when"):
                prepositions = self.grammar.prepositions["when"]
                parts["time"] = self.prepositional_phrase(self.choices.weighted([(p.weight, p) for p in prepositions]))
            else:
                fitting = [(de, adverb.en) for de, adverb in adverbs["time"].items() if tense in adverb.tenses]
                if fitting:
                    parts["time"] = self.fixed_expression(*self.choices.one(fitting))
        if "time" not in parts and "frequency" not in rule.without and self.chance("frequency"):
            fitting = [(de, adverb.en) for de, adverb in adverbs["frequency"].items() if tense in adverb.tenses]
            if fitting:
                parts["frequency"] = self.fixed_expression(*self.choices.one(fitting))
        if "manner" not in rule.without and entry.manner and tense != "gladly" and self.chance("manner"):
            options = [(de, adverb.en) for de, adverb in adverbs[entry.manner].items()]
            parts["manner"] = self.fixed_expression(*self.choices.one(options))

    def object_phrase(self, rule: ClauseRule, entry: Verb, frame: Frame, *, negated: bool, no_object: bool) -> Phrase:
        """The object; `no_object`: negated by `kein`."""
        assert frame.object is not None
        if rule.object:
            return self.fixed_expression(*rule.object)
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

    def prepositional_object(self, verb: str, entry: Verb, *, negated: bool) -> Phrase:
        """A verb's prepositional object; without a preposition in English if the lexicon has `-`."""
        assert entry.preposition is not None
        german, case, english = entry.preposition
        complement = self.noun_phrase(
            entry.object, case, definite=negated and not entry.bare, indefinite=entry.bare, plain=True
        )
        if complement.head:
            self.combinations.add((verb, complement.head))
        phrase = self.with_preposition(german, "" if english == "-" else english, complement)
        if english != "-":
            return phrase
        first = phrase.en[0]
        return replace(phrase, en=(replace(first, marks=first.marks | phrase.de[0].marks), *phrase.en[1:]))

    def add_places(self, rule: ClauseRule, entry: Verb, frame: str, parts: dict[str, Phrase]) -> None:
        """Add the parts `goal`, `place` and `company`."""
        if self.grammar.frames[frame].goal:
            parts["goal"] = self.place_phrase("goal", entry.goal, entry.by)
        needed = "place" in rule.needs or entry.needs_place
        if "place" not in rule.without and (needed or (not rule.short and entry.place and self.chance("place"))):
            kinds = entry.place or (["indoors", "outdoors", "field", "ground"] if frame == "existence" else [])
            if not kinds:
                raise NoChoiceError
            parts["place"] = self.place_phrase("place", kinds)
        human = self.is_of(parts["subject"], ["human"])
        accompanied = entry.company and human and not rule.short and "place" not in parts
        if accompanied and "company" not in rule.without and self.chance("company"):
            prepositions = self.grammar.prepositions["company"]
            parts["company"] = self.prepositional_phrase(self.choices.weighted([(p.weight, p) for p in prepositions]))

    def place_phrase(self, role: Literal["place", "goal"], kinds: Sequence[str], by: Sequence[str] = ()) -> Phrase:
        """A location or a direction: a noun of these kinds with a preposition that fits it; `by`: those allowed."""
        place = self.choices.one(self.nouns_of(kinds))
        options = [
            (p.weight, p)
            for p in self.grammar.prepositions[role]
            if place in self.nouns_of(p.of) and (not by or p.de in by)
        ]
        if not options:
            raise NoChoiceError
        return self.prepositional_phrase(self.choices.weighted(options).model_copy(update={"of": [place]}))

    def predicate(self, subject: Phrase) -> Phrase:
        """The predicate of a copula: a profession, a comparison or an adjective."""
        point = self.choices.random.random()
        if self.may_have_profession(subject) and point < 0.25:
            return self.profession(subject)
        adjective = self.choices.one(self.adjectives_of[subject.head or "Freund"])
        entry = self.lexicon.adjectives[adjective]
        if subject.head:
            self.combinations.add((adjective, subject.head))
        mark = self.new_mark()
        if len(entry.en) < 3 or point >= 0.5:
            return Phrase((Word(adjective, mark),), (Word(entry.en[0], mark),))
        than = self.new_mark()
        other = self.noun_phrase([subject.head or "human"], "nominative", plain=True)
        if subject.head:
            other = self.noun_phrase([self.lexicon.noun[subject.head].kind], "nominative", plain=True)
            if other.head is not None and adjective not in self.adjectives_of[other.head]:
                raise NoChoiceError
        return Phrase(
            (Word(entry.en[1], mark), Word("als", than), *other.de),
            (*(Word(word, mark) for word in entry.en[2].split()), Word("than", than), *other.en),
            head=other.head,
        )

    def may_have_profession(self, subject: Phrase) -> bool:
        """Whether the subject is a name, a relative or a friend, whose gender a profession can agree with."""
        return (
            self.is_of(subject, ["human"])
            and (subject.head is None or subject.head in self.nouns_of(["family", "Freund", "Freundin"]))
            and subject.person in (2, 4)
            and subject.gender in ("m", "f")
            and subject.pronoun is None
        )

    def profession(self, subject: Phrase) -> Phrase:
        """A profession that agrees with the subject, without article in German."""
        nouns = [self.lexicon.noun[name] for name in self.nouns_of(["profession"])]
        noun = self.choices.one([noun for noun in nouns if noun.gender == subject.gender])
        number: Number = "p" if subject.person == 4 else "s"
        mark = self.new_mark()
        article = (Word("a", mark),) if number == "s" else ()
        english = tuple(Word(word, mark) for word in self.english.noun(noun, number).split())
        return Phrase((Word(self.german.noun(noun, number, "nominative"), mark),), article + english, head=noun.de)

    # Order.

    def ordered(self, clause: Clause) -> Phrase:
        """A clause's words in the order of its layout."""
        layout = self.grammar.layouts[clause.rule.layout]
        frame_name = next(name for name, verbs in self.lexicon.verbs.items() if verbs.get(clause.verb) is clause.entry)
        swapped = self.grammar.frames[frame_name].swapped
        german = dict(clause.parts)
        if "sich" in layout.de and "reflexive" in german and not german["subject"].pronoun:
            german["sich"] = german.pop("reflexive")
        if "sich" in layout.de and swapped and german["recipient"].pronoun:
            german["sich"] = german.pop("recipient")
        if "manner" in german and "object" in german and german["object"].indefinite and "early" in layout.de:
            german["early"] = german.pop("manner")
        for name in ("recipient", "object"):
            if name in german and german[name].pronoun and layout.de[0] != name and "pronoun" in layout.de:
                german["pronoun"] = german.pop(name)
        english = dict(clause.parts)
        if swapped:
            english["subject"], english["object"] = english.pop("recipient"), english["subject"]
        if clause.rule.layout == "infinitive":
            english.pop("subject")
        for name, literal in self.grammar.literals.items():
            if name in layout.de:
                german[name] = english[name] = self.fixed_expression(*literal)
        if "comma" in layout.en:
            english["comma"] = Phrase(en=(Word(","),))
        return Phrase(
            tuple(word for name in layout.de if name in german for word in german[name].de),
            tuple(word for name in layout.en if name in english for word in english[name].en),
        )
