"""Inputs and output of a model: texts by their vocabularies, images by their grids of regions."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field

from interlinear.components import IMAGE_NETWORKS


class TextVocabulary(BaseModel):
    """A text source or the target: the size of its vocabulary."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["text"] = "text"
    vocabulary: int = Field(ge=5)

    def __str__(self) -> str:
        return f"text, vocabulary {self.vocabulary:,}"


class ImageNetwork(BaseModel):
    """A network from pixels to regions. Its weights belong to the model and are stored in the bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Annotated[str, AfterValidator(IMAGE_NETWORKS.check)] = "small"
    size: int = Field(128, ge=16, le=512, description="images are resized to this many pixels a side")
    frozen: bool = Field(False, description="its weights are not trained")


class ImageGrid(BaseModel):
    """An image source: a grid of rows x columns regions, in row-major order, with `features` numbers each.

    With a `network`, the model computes the features from pixels. Without one, it reads precomputed features, and
    `made_by` identifies the network that computed them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["image"] = "image"
    rows: int = Field(ge=1)
    columns: int = Field(ge=1)
    features: int = Field(ge=1)
    network: ImageNetwork | None = None
    made_by: str = Field("", description="identifies the network that computed precomputed features")

    @property
    def regions(self) -> int:
        return self.rows * self.columns

    def __str__(self) -> str:
        origin = f" from {self.network.size} x {self.network.size} pixels" if self.network else ""
        return f"image, {self.rows} x {self.columns} regions of {self.features} features{origin}"


SourceConfig = Annotated[TextVocabulary | ImageGrid, Discriminator("kind")]
