"""Every error that a user can meet: what was wrong, where, and what to do about it."""


class InterlinearError(Exception):
    """An expected error, printed as one sentence: `where: problem. Remedy.`"""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where = where
        self.problem = problem
        self.remedy = remedy
        super().__init__(where, problem, remedy)  # all three, so that the error survives pickling between processes

    def __str__(self) -> str:
        sentence = f"{self.where}: {self.problem.rstrip('.')}."
        return f"{sentence} {self.remedy[:1].upper()}{self.remedy[1:].rstrip('.')}." if self.remedy else sentence


class CallError(InterlinearError):
    """The command was called wrongly."""


class RecipeError(CallError):
    """A recipe has an unknown key, a bad value, or parts that do not go together."""


class UnknownDataError(CallError):
    """A data set of that name does not exist."""


class DataError(InterlinearError):
    """A corpus cannot be read as what it is said to be."""


class BundleError(InterlinearError):
    """A model bundle is incomplete, damaged, or of a newer format."""


class RegistryError(InterlinearError):
    """The registry cannot be reached, or has no such model."""


class TrainingError(InterlinearError):
    """Training cannot go on."""


class RequestError(InterlinearError):
    """A text cannot be translated as asked."""


class ServiceError(InterlinearError):
    """The service cannot start."""
