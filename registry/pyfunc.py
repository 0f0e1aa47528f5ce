"""A bundle as MLflow's own tools load it: `mlflow.pyfunc.load_model`, `mlflow models serve`.

MLflow keeps a copy of this file beside the bundle and runs it to load the model: code and tensors, no pickle.
"""

import mlflow
import pandas as pd
from mlflow.exceptions import MlflowException
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import ValidationError

import seq2seq
from seq2seq.errors import RequestError
from seq2seq.generation import Answer, Generation, Request
from seq2seq.search import SearchOptions


class Texts(PythonModel):
    """A column of texts for each source in, the best text of each row out."""

    def load_context(self, context: PythonModelContext) -> None:
        self.bundle = seq2seq.load(context.artifacts["bundle"])

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, object] | None = None
    ) -> list[str]:
        """The best output of every row. Raises MlflowException, a bad request, for a text that cannot be read."""
        card = self.bundle.card
        wanted = {"beam": params["beam_size"]} if params else {}
        rows = model_input[self._columns(list(model_input.columns))].itertuples(index=False)
        try:
            options = SearchOptions.model_validate(card.search.model_dump() | wanted)
            generation = Generation(self.bundle, width=options.beam)
            requests = [Request(dict(zip(card.model.sources, row, strict=True)), options) for row in rows]
            return [_best(answer) for answer in generation.answers(requests)]
        except (RequestError, ValidationError) as error:
            raise MlflowException.invalid_parameter_value(str(error)) from None

    def _columns(self, given: list[object]) -> list[object]:
        """The columns that hold the sources: by name, or the only one of a list of texts, which has no name."""
        names = list(self.bundle.card.model.sources)
        if set(names) <= set(given):
            return list(names)
        if len(names) == 1 and given == [0]:
            return given
        raise MlflowException.invalid_parameter_value(
            f"The model reads the columns {', '.join(names)}; given were {', '.join(map(str, given))}."
        )


def _best(answer: Answer | RequestError) -> str:
    if isinstance(answer, RequestError):
        raise answer
    return answer.candidates[0].text


mlflow.models.set_model(Texts())
