"""English inflection of nouns and verbs, and the choice between `a` and `an`."""

import re

from tools.demo_world.grammar.lexicon import Grammar, Lexicon, Noun, Number

VOWELS = "aeiou"


class English:
    """Inflects the lexicon's words by the grammar's rules."""

    def __init__(self, lexicon: Lexicon, grammar: Grammar) -> None:
        self.lexicon = lexicon
        self.rules = grammar.english

    def noun(self, noun: Noun, number: Number) -> str:
        """A noun's form, of one or several words: dog, front doors."""
        if number != "p":
            return noun.en
        return noun.en_plural or self.add_s(noun.en, self.rules.plural_es)

    @staticmethod
    def add_s(word: str, es: str) -> str:
        """The word with -s, -es or -ies; `es`: regular expression of the words that take -es."""
        if word.endswith("y") and word[-2] not in VOWELS:
            return word[:-1] + "ies"
        return word + ("es" if re.search(es, word) else "s")

    def verb(self, verb: str, form: str, person: int = 2) -> str:
        """A verb's form. Persons: 0 I, 1 you, 2 he, 3 we, 4 they. Raises ValueError for an unknown form."""
        match form:
            case "base":
                return verb
            case "present":
                if verb == "be":
                    return self.rules.be["present"][person]
                if person != 2:
                    return verb
                return "has" if verb == "have" else self.add_s(verb, self.rules.third_es)
            case "past" | "participle":
                if verb == "be" and form == "past":
                    return self.rules.be["past"][person]
                if verb in self.lexicon.irregular:
                    return self.lexicon.irregular[verb][form == "participle"]
                return self.add_ending(verb, "ed")
            case "ing":
                return "lying" if verb == "lie" else self.add_ending(verb, "ing")
        raise ValueError(f"no form '{form}'")

    def add_ending(self, verb: str, ending: str) -> str:
        """The verb with the ending `ed` or `ing`: planned, carried, dancing."""
        if verb in self.lexicon.doubling:
            return verb + verb[-1] + ending
        if ending == "ed" and verb.endswith("y") and verb[-2] not in VOWELS:
            return verb[:-1] + "ied"
        return (verb if verb.endswith("ee") and ending == "ing" else verb.removesuffix("e")) + ending

    def article(self, following: str) -> str:
        """`a` or `an`, by the following word."""
        return "an" if re.search(self.rules.an, following) else "a"
