"""Base of the models of table files and result files."""

from pydantic import BaseModel, ConfigDict


class StrictModel(BaseModel):
    """Base of the models of our files: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")
