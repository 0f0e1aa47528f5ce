"""Sentences of the demo grammar: German and English generated together, with exact word alignments."""

from tools.demo_world.grammar.clauses import ClauseGenerator
from tools.demo_world.grammar.phrases import Phrase
from tools.demo_world.pairs import UNMARKED, Pair, Word, Words, links_between
from tools.demo_world.text import capitalize_first, remove_extra_commas


class SentenceGenerator(ClauseGenerator):
    """Generates pairs of a German and an English sentence."""

    def attempt(self) -> Pair:
        """A sentence pair that follows a random sentence rule. Raises NoChoiceError."""
        rule = self.choices.weighted([(rule.weight, rule) for rule in self.grammar.sentences])
        phrases: dict[str, Phrase] = {}
        subjects: dict[str, Phrase] = {}
        for name, options in rule.choose.items():
            phrases[name] = self.fixed_expression(*self.choices.one(options))
        for name, clause_rule in rule.clauses.items():
            controller = subjects.get(clause_rule.subject) if isinstance(clause_rule.subject, str) else None
            clause = self.clause(clause_rule, controller)
            subjects[name] = clause.parts["subject"]
            phrases[name] = self.ordered(clause)
        stop, comma = self.new_mark(), self.new_mark()
        marks = {",": comma if "," in rule.de and "," in rule.en else UNMARKED}

        def side(order: list[str], words: dict[str, Words]) -> Words:
            result: list[Word] = []
            for name in order:
                result.extend(words[name] if name in words else [Word(name, marks.get(name, stop))])
            return tuple(result)

        de = side(rule.de, {name: phrase.de for name, phrase in phrases.items()})
        en = side(rule.en, {name: phrase.en for name, phrase in phrases.items()})
        return self.pair(de, en)

    def pair(self, de: Words, en: Words) -> Pair:
        """The pair of two word sequences, with final commas, articles and capital letters, and alignment links."""
        de, en = remove_extra_commas(de), remove_extra_commas(self.with_articles(en))
        links = links_between(de, en)
        return Pair(capitalize_first(de), capitalize_first(en), links, frozenset(self.combinations))
