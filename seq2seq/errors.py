"""Every error that a user can meet: what was wrong, where, and what to do about it."""

from typing import Literal

ImageProblem = Literal["empty", "bytes", "format", "pixels", "animated", "damaged"]


class InterlinearError(Exception):
    """An expected error, printed as one sentence: `where: problem. Remedy.`"""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where = where
        self.problem = problem
        self.remedy = remedy
        super().__init__(where, problem, remedy)  # all three, so that the error survives pickling between processes

    def __str__(self) -> str:
        return " ".join(
            filter(None, [as_sentence(f"{self.where}: {self.problem}"), as_sentence(capitalized(self.remedy))])
        )


def as_sentence(text: str) -> str:
    """The text with one full stop, or its question mark, at the end."""
    text = text.strip().rstrip(".")
    return text if not text or text.endswith("?") else f"{text}."


def capitalized(text: str) -> str:
    """The text with a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


class UsageError(InterlinearError):
    """The command was called wrongly."""


class RecipeError(UsageError):
    """A recipe has an unknown key, a bad value, or parts that do not go together."""


class UnknownDataError(UsageError):
    """A data set of that name does not exist."""


class DataError(InterlinearError):
    """A corpus cannot be read as what it is said to be."""


class BundleError(InterlinearError):
    """A model bundle is incomplete, damaged, or of a newer format."""


class RegistryError(InterlinearError):
    """The registry cannot be reached, or has no such model."""


class RegistryUnavailableError(RegistryError):
    """The registry does not answer now, and may do so later."""


class UnknownModelError(RegistryError):
    """The registry answers, and has no such model."""


class FigureError(InterlinearError):
    """A picture cannot be drawn."""


class TrainingError(InterlinearError):
    """Training cannot go on."""


class StorageError(InterlinearError):
    """A storage refuses, or stays away."""


class CorruptedError(StorageError):
    """A folder on a storage is missing, or not what was put there."""


class RequestError(InterlinearError):
    """A text cannot be translated as asked."""


class ImageError(RequestError):
    """A picture cannot be read; `kind` says for programs why: nothing there, too many bytes, ..."""

    def __init__(self, where: str, problem: str, remedy: str, kind: ImageProblem) -> None:
        super().__init__(where, problem, remedy)
        self.kind = kind
        self.args = (where, problem, remedy, kind)  # of which a copy in another process is made


class ServiceError(InterlinearError):
    """The service cannot start, cannot be reached, or does not keep what was asked of it."""


class KeyFileError(InterlinearError):
    """The file of API keys cannot be read or written."""
