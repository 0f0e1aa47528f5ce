"""Systems that are not ours in a table: figures from papers, and outputs of other toolkits."""

from pydantic import Field

from training.reproduce.strict_model import StrictModel


class PublishedSystem(StrictModel):
    """A system's figures from a publication, shown beside ours without a significance test."""

    name: str
    citation: str = Field(description="the publication, and where in it the figures are")
    settings: str = Field("", description="how the figures were computed, where that matters")
    scores: dict[str, dict[str, float]] = Field(description="by test set, then by score")


class ToolkitSystem(StrictModel):
    """A system that another toolkit trained on the same data; its outputs are scored beside ours.

    The outputs of seed S for test set T are the file `outputs/PAPER.GROUP.NAME.S.T.gz` in the folder of results.
    """

    about: str = Field(description="architecture, subwords, optimizer and search")
    toolkit: str
    version: str = Field(description="release or commit")
    parameters: int | None = None
    minutes: float | None = Field(None, description="of training, the mean over the seeds")
