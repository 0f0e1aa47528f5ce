"""A bundle as an MLflow pyfunc model, for `mlflow.pyfunc.load_model` and `mlflow models serve`.

MLflow stores a copy of this file beside the bundle and runs it to load the model: code and tensors, no pickle.
"""

from typing import Any

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import ValidationError

from interlinear.bundle import load
from interlinear.errors import RequestError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.images.decode import read_image
from interlinear.search import SearchOptions


class BundleModel(PythonModel):
    """Takes a column for each source, and returns the best output of each row."""

    def load_context(self, context: PythonModelContext) -> None:
        self.bundle = load(context.artifacts["bundle"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, object] | None = None
    ) -> list[str]:
        """The best output of every row. Raises MlflowException, a bad request, for invalid input."""
        card = self.bundle.card
        overrides = {"beam": params["beam_size"]} if params else {}
        columns = self._columns(list(model_input.columns))
        rows = model_input[list(columns)].itertuples(index=False)
        try:
            options = SearchOptions.model_validate(card.search.model_dump() | overrides)
            generation = SequenceGenerator(self.bundle, width=options.beam)
            requests = [self._request(dict(zip(columns.values(), row, strict=True)), options) for row in rows]
            return [_best(answer) for answer in generation.generate(requests)]
        except (RequestError, ValidationError) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None

    def _request(self, row: dict[str, Any], options: SearchOptions) -> Request:
        """The request for a row; with several sources, some may be missing."""
        model = self.bundle.card.model
        present = {name: value for name, value in row.items() if not pd.isna(value)}
        images = {
            name: read_image(model.images[name], value, name)
            for name, value in present.items()
            if name in model.images and isinstance(value, bytes)
        }
        return Request({name: str(present[name]) for name in model.texts if name in present}, options, images=images)

    def _columns(self, columns: list[object]) -> dict[object, str]:
        """The columns that hold sources: by name, or the only column of a list of texts, which has no name."""
        names = list(self.bundle.card.model.sources)
        source_columns: dict[object, str] = {column: str(column) for column in columns if column in names}
        if source_columns:
            return source_columns
        if len(names) == 1 and columns == [0]:
            return {0: names[0]}
        raise MlflowException.invalid_parameter_value(
            f"The model reads the columns {', '.join(names)}; given were {', '.join(map(str, columns))}."
        )


def _best(answer: GenerationResult | RequestError) -> str:
    if isinstance(answer, RequestError):
        raise answer
    return answer.candidates[0].text


mlflow.models.set_model(BundleModel())
