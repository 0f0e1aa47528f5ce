"""Names of `seq2seq.generate` that registered models of earlier versions import: MLflow keeps a copy of
`registry/store/pyfunc.py` beside every model. They go with the next release."""

from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult as Answer
from seq2seq.generation_request import Request
from seq2seq.images.inputs import read_image as picture

__all__ = ["Answer", "Generation", "Request", "picture"]


class Generation(SequenceGenerator):
    """`SequenceGenerator`, whose `generate` was called `answers`."""

    answers = SequenceGenerator.generate
