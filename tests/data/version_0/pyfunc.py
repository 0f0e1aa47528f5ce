"""A bundle as MLflow's own tools load it: `mlflow.pyfunc.load_model`, `mlflow models serve`.

MLflow keeps a copy of this file beside the bundle and runs it to load the model: code and tensors, no pickle.
"""

from typing import Any

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import ValidationError

import seq2seq
from seq2seq.errors import RequestError
from seq2seq.generation import Answer, Generation, Request, picture
from seq2seq.search import SearchOptions


class Texts(PythonModel):
    """A column for each source in, the best text of each row out."""

    def load_context(self, context: PythonModelContext) -> None:
        self.bundle = seq2seq.load(context.artifacts["bundle"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, object] | None = None
    ) -> list[str]:
        """The best output of every row. Raises MlflowException, a bad request, for a text that cannot be read."""
        card = self.bundle.card
        wanted = {"beam": params["beam_size"]} if params else {}
        columns = self._columns(list(model_input.columns))
        rows = model_input[list(columns)].itertuples(index=False)
        try:
            options = SearchOptions.model_validate(card.search.model_dump() | wanted)
            generation = Generation(self.bundle, width=options.beam)
            requests = [self._request(dict(zip(columns.values(), row, strict=True)), options) for row in rows]
            return [_best(answer) for answer in generation.answers(requests)]
        except (RequestError, ValidationError) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None

    def _request(self, given: dict[str, Any], options: SearchOptions) -> Request:
        """A row's texts and pictures; of several sources it may lack some."""
        model = self.bundle.card.model
        there = {name: value for name, value in given.items() if not pd.isna(value)}
        images = {
            name: picture(model.images[name], value, name)
            for name, value in there.items()
            if name in model.images and isinstance(value, bytes)
        }
        return Request({name: str(there[name]) for name in model.texts if name in there}, options, images=images)

    def _columns(self, given: list[object]) -> dict[object, str]:
        """The columns that hold sources: by name, or the only one of a list of texts, which has no name."""
        names = list(self.bundle.card.model.sources)
        found: dict[object, str] = {column: str(column) for column in given if column in names}
        if found:
            return found
        if len(names) == 1 and given == [0]:
            return {0: names[0]}
        raise MlflowException.invalid_parameter_value(
            f"The model reads the columns {', '.join(names)}; given were {', '.join(map(str, given))}."
        )


def _best(answer: Answer | RequestError) -> str:
    if isinstance(answer, RequestError):
        raise answer
    return answer.candidates[0].text


mlflow.models.set_model(Texts())
