"""TODO"""

from seq2seq.text.tokenizer import (
    BEGIN,
    BYTES,
    DELETE,
    END,
    KEEP,
    PAD,
    SPECIAL,
    UNKNOWN,
    Decoded,
    Encoded,
    TextConfig,
    Tokenizer,
    word_spans,
)

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
    "word_spans",
]
