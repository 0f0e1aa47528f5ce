"""German inflection of nouns, adjectives, determiners and verbs."""

import re

from tools.demo_world.grammar.lexicon import Case, Determiner, Grammar, Lexicon, Noun, Number, Table

VOWELS = re.compile("[aeiouäöüy]+", re.IGNORECASE)


class German:
    """Inflects the lexicon's words by the grammar's tables."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar) -> None:
        self.lexicon = lexicon
        self.rules = grammar.german
        self.cases = grammar.cases
        self.tables: dict[str, Table] = {
            name: getattr(self.rules, name) for name in ("definite", "full", "short", "weak", "mixed", "strong")
        }

    def ending(self, table: Table, noun: Noun, number: Number, case: Case) -> str:
        return table["p" if number == "p" else noun.gender][self.cases.index(case)]

    def noun(self, noun: Noun, number: Number, case: Case) -> str:
        """A noun's form: Hund, Hundes, Hunde, Hunden."""
        if number == "p":
            assert noun.plural is not None
            return noun.plural + ("n" if case == "dative" and noun.plural[-1] not in "ns" else "")
        if noun.weak and case != "nominative":
            assert noun.plural is not None
            return noun.plural
        if case != "genitive" or noun.gender == "f":
            return noun.de
        short = len(VOWELS.findall(noun.de)) == 1 or re.search(self.rules.long_genitive, noun.de)
        return noun.genitive or noun.de + ("es" if short else "s")

    def determiner(self, determiner: Determiner, noun: Noun, number: Number, case: Case) -> str:
        """A determiner's form: dem, einer, diese; empty for no determiner."""
        stem = determiner.stem or ""
        return stem + self.ending(self.tables[determiner.forms], noun, number, case) if determiner.forms else stem

    def adjective(self, adjective: str, determiner: Determiner, noun: Noun, number: Number, case: Case) -> str:
        """An adjective's form before a noun: kleinen, teures."""
        stem = self.lexicon.adjectives[adjective].stem or adjective
        return stem + self.ending(self.tables[determiner.adjective], noun, number, case)

    def relative_pronoun(self, noun: Noun, number: Number, case: Case) -> str:
        """The relative pronoun that refers to a noun: der, die, das, den."""
        return self.ending(self.rules.relative, noun, number, case)

    def verb(self, verb: str, form: str, person: int = 2) -> tuple[str, str]:
        """A verb's form without its separable prefix, and the prefix: ("macht", "auf"). Raises ValueError.

        Persons: 0 ich, 1 du, 2 er, 3 wir, 4 sie. Forms: infinitive, present, past, participle, imperative.
        """
        prefix, _, base = verb.rpartition("|")
        stem = base.removesuffix("en") if base.endswith("en") else base.removesuffix("n")
        parts = self.lexicon.principal.get(base)
        match form:
            case "infinitive":
                return base, prefix
            case "present":
                return self.present(base, stem, person), prefix
            case "past":
                return self.past(parts[1] if parts else stem + self.linking_e(stem) + "te", person), prefix
            case "participle":
                if parts:
                    return parts[2], prefix
                ge = "" if re.search(self.rules.no_ge, base) else "ge"
                return ge + stem + self.linking_e(stem) + "t", prefix
            case "imperative":
                return self.imperative(base, stem), prefix
        raise ValueError(f"no form '{form}'")

    def linking_e(self, stem: str) -> str:
        """The e between a stem in d or t and an ending in t or st: arbeit-e-t."""
        return "e" if re.search(self.rules.linking_e, stem) else ""

    def present(self, base: str, stem: str, person: int) -> str:
        """A person of the present tense: gehe, gehst, geht, gehen."""
        parts = self.lexicon.principal.get(base)
        if parts and isinstance(parts[0], list):
            return parts[0][person]
        if person in (3, 4):
            return base
        if person == 0:
            return (stem[:-2] + "le") if base.endswith("eln") else stem + "e"
        third = str(parts[0]) if parts else stem + self.linking_e(stem) + "t"
        if person == 2:
            return third
        if base in self.lexicon.second:
            return self.lexicon.second[base]
        root = third.removesuffix("t")
        return root + ("t" if re.search(self.rules.no_second_s, root) else "st")

    @staticmethod
    def past(third: str, person: int) -> str:
        """A person of the preterite, from its third person: ging, gingst, gingen; kaufte, kauftest, kauften."""
        return (
            third + ("", "st", "", "n" if third.endswith("e") else "en", "n" if third.endswith("e") else "en")[person]
        )

    def imperative(self, base: str, stem: str) -> str:
        """The imperative singular: lies, fahr, öffne, besuche, sammle."""
        third = self.present(base, stem, 2)
        if VOWELS.findall(stem)[-1] == "e" and VOWELS.findall(third)[-1] in ("i", "ie"):
            return third.removesuffix("t")
        if base.endswith("eln"):
            return stem[:-2] + "le"
        return stem + ("e" if self.linking_e(stem) or len(VOWELS.findall(stem)) > 1 else "")
