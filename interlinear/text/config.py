"""Text configuration of a field (`TextConfig`), the special vocabulary entries, and the reserved code points."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3  # the first entries of every vocabulary
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
KEEP, DELETE = 4, 5  # the next entries of a vocabulary with edit operations
OPERATIONS = ("<keep>", "<delete>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class TextConfig(BaseModel):
    """Tokenizer configuration of one field: properties of its text, and the kind of vocabulary."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    units: Literal["bpe", "unigram", "words"]
    vocabulary: int = Field(ge=len(SPECIAL) + 1, description="maximum number of ids, including the special ones")
    lowercase: bool = Field(False, description="read and write lower case")
    tokenised: bool = Field(False, description="words and punctuation in the text are already separated by spaces")
    language: str | None = Field(None, description="ISO code")
    unknown: str | None = Field(None, description="the token that marks an unknown word in the text")
    segmentation: str | None = Field(None, description="suffix of a piece that the next one continues, such as `@@`")
    operations_on: str | None = Field(
        None, description="source whose pieces the vocabulary's keep and delete operations apply to"
    )

    @property
    def reserved(self) -> tuple[str, ...]:
        """The special entries at the beginning of the vocabulary, which no text can produce."""
        return SPECIAL if self.operations_on is None else SPECIAL + OPERATIONS

    @property
    def subwords(self) -> bool:
        """Whether the units are subwords: `▁` begins the first piece of a word, and the vocabulary has bytes."""
        return self.units != "words"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        least = len(self.reserved) + len(BYTES) + 1
        if self.subwords and self.vocabulary < least:
            raise ValueError(f"vocabulary: {self.units} needs at least {least} entries, 256 of them for bytes")
        if self.segmentation is not None and not self.tokenised:
            raise ValueError("segmentation: has no effect unless the text is tokenised")
        return self
