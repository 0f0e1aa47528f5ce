"""Terms: spans of a source text with the exact text that must stand for them in its translation."""

from interlinear.generation.terms.finder import GlossaryEntry, TermFinder, TermOptions
from interlinear.generation.terms.protected import protected_spans
from interlinear.generation.terms.term import Term, check_terms, join_divided, only_terms, terms_within

__all__ = [
    "GlossaryEntry",
    "Term",
    "TermFinder",
    "TermOptions",
    "check_terms",
    "join_divided",
    "only_terms",
    "protected_spans",
    "terms_within",
]
