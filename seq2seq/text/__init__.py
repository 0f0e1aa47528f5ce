"""Text processing: tokenizers, vocabularies, sentence splitting, and edit scripts."""

from seq2seq.text.config import BEGIN, BYTES, DELETE, END, KEEP, PAD, SPECIAL, UNKNOWN, TextConfig
from seq2seq.text.detokenizer import Decoded
from seq2seq.text.normalization import join_subwords
from seq2seq.text.segmentation import word_spans
from seq2seq.text.tokenizer import Encoded, Tokenizer

__all__ = [
    "BEGIN",
    "BYTES",
    "DELETE",
    "END",
    "KEEP",
    "PAD",
    "SPECIAL",
    "UNKNOWN",
    "Decoded",
    "Encoded",
    "TextConfig",
    "Tokenizer",
    "join_subwords",
    "word_spans",
]
