"""Terms as constraints of a search: the tokens of their targets, and the source positions that they stand for."""

from collections.abc import Sequence

from seq2seq.search.constraints import Constraint
from seq2seq.terms.term import Term
from seq2seq.text import UNKNOWN, Encoded, Tokenizer
from seq2seq.text.segmentation import is_unspaced

WORD_BEGIN = "▁"  # the piece of a word's begin alone


def term_constraints(terms: Sequence[Term], source: Encoded, target: Tokenizer) -> tuple[Constraint, ...]:
    """The constraint of each term; `source`: the encoded text, `target`: the output's tokenizer."""
    encoded = target.encode_batch([term.target for term in terms], raw=True)
    return tuple(
        Constraint(tuple(word_ids(target, term.target, ids.ids) or [UNKNOWN]), source_positions(term, source))
        for term, ids in zip(terms, encoded, strict=True)
    )


def word_ids(tokenizer: Tokenizer, text: str, ids: list[int]) -> list[int]:
    """The ids of a text as words of an output: those of scripts without spaces begin without one."""
    if len(ids) > 1 and tokenizer.pieces[ids[0]] == WORD_BEGIN and is_unspaced(text.strip()[0]):
        return ids[1:]
    return ids


def source_positions(term: Term, source: Encoded) -> tuple[int, int] | None:
    """The positions [start, end) of the tokens that overlap a term; None if there are none."""
    own = [i for i, (start, end) in enumerate(source.offsets) if start < term.end and term.start < end]
    return (own[0], own[-1] + 1) if own else None
