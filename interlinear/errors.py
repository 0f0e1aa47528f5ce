"""User-facing errors. Each says where the problem is, what it is, and how to solve it."""

from typing import Literal

ImageProblem = Literal["empty", "bytes", "format", "pixels", "animated", "damaged"]


class InterlinearError(Exception):
    """An expected error, printed as one sentence: `where: problem. Remedy.`"""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where = where
        self.problem = problem
        self.remedy = remedy
        super().__init__(where, problem, remedy)  # all three, since unpickling calls the class with `args`

    def __str__(self) -> str:
        return " ".join(
            filter(None, [as_sentence(f"{self.where}: {self.problem}"), as_sentence(capitalized(self.remedy))])
        )


def as_sentence(text: str) -> str:
    """The text ending with exactly one full stop, or with its question mark."""
    text = text.strip().rstrip(".")
    return text if not text or text.endswith("?") else f"{text}."


def capitalized(text: str) -> str:
    """The text with its first letter capitalized and the rest unchanged."""
    return text[:1].upper() + text[1:]


class UsageError(InterlinearError):
    """A command was called with wrong arguments."""


class RecipeError(UsageError):
    """A recipe has an unknown key, an invalid value, or incompatible parts."""


class UnknownDataError(UsageError):
    """No data set has the requested name."""


class DataError(InterlinearError):
    """A data file cannot be read, or does not have the declared format."""


class BundleError(InterlinearError):
    """A model bundle is incomplete, damaged, or written in a newer format."""


class RegistryError(InterlinearError):
    """The model registry cannot be reached, or does not have the requested model."""


class RegistryUnavailableError(RegistryError):
    """The model registry does not respond; retrying later may succeed."""


class UnknownModelError(RegistryError):
    """The model registry does not have the requested model."""


class FigureError(InterlinearError):
    """A figure cannot be drawn."""


class TrainingError(InterlinearError):
    """Training cannot continue."""


class StorageError(InterlinearError):
    """A storage rejects an operation, or stays unreachable."""


class CorruptedError(StorageError):
    """A folder on a storage is missing, or its content differs from what was uploaded."""


class RequestError(InterlinearError):
    """A request cannot be processed."""


class ImageError(RequestError):
    """An image cannot be read; `kind` is the machine-readable reason."""

    def __init__(self, where: str, problem: str, remedy: str, kind: ImageProblem) -> None:
        super().__init__(where, problem, remedy)
        self.kind = kind
        self.args = (where, problem, remedy, kind)  # unpickling calls the class with `args`


class ServiceError(InterlinearError):
    """The service cannot start, cannot be reached, or misses a requested target."""


class StoreError(InterlinearError):
    """The SQL database of a service cannot be read or written."""


class KeyFileError(StoreError):
    """The file of API keys cannot be read or written."""
