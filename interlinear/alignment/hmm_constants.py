"""The constants of the HMM aligner, on which its links depend. They were chosen on the gold sets of docs/alignment.md.

`constants_digest` covers every name in capital letters here, so that stored links of other constants are computed
again; a constant that links depend on belongs here.
"""

import hashlib
import json

ALGORITHM = 2  # raised when other code gives other links with equal constants

LEXICAL_PASSES = 3  # with positions independent of each other (IBM model 1), near the diagonal
HMM_PASSES = 3
PRIOR = 0.0005  # Dirichlet prior of a word's translations
SIMILAR_PRIOR = 0.15  # added to it for two equal words
EMPTY_WORD = 0.05  # probability that a target word is not aligned
DIAGONAL = 4.0  # weight of a position: exp(-DIAGONAL |i/I - j/J|) (Dyer et al. 2013)
MANY_PAIRS = 5000  # from this number of pairs on, words are better evidence than positions
WEAK_DIAGONAL = 1.0  # replaces DIAGONAL then
PUNCTUATION = 0.1  # weight of a link between a punctuation mark and a word
FARTHEST = 10  # longer jumps are counted as jumps of this width
JUMP_DECAY = 0.5  # first jump probabilities: exp(-JUMP_DECAY |jump - 1|)
JUMP_PRIOR = 0.5
AGREED = 0.5  # a link is kept where the mean of both directions' posteriors reaches this
MAX_CELLS = 100_000_000  # cells of the pairs that are learned from; 12 bytes each
PART_CELLS = 5_000_000  # cells of the pairs that are aligned together; 30 bytes each
PREFIX = 16  # letters of a word that are compared with another's
SIMILAR_LETTERS = 4  # a common beginning of this number of letters makes two words similar
SIMILAR_SHARE = 0.75  # or of this share of the longer one


def constants_digest() -> str:
    """SHA-256 over the names and values of all constants."""
    constants = {name: value for name, value in globals().items() if name.isupper()}
    return hashlib.sha256(json.dumps(constants, sort_keys=True).encode()).hexdigest()
