"""`interlinear distill`: writes a data set whose training targets are a model's outputs, for a smaller model."""

from interlinear.cli.synthetic_data.synthetic_options import DistillationOptions


def distill(options: DistillationOptions) -> None:
    """Translate the train split of a data set, so that a smaller model can learn from the outputs (Kim and Rush 2016).

    Prints the path of the new data set's description, for `train student --data`. Its dev and test are the
    original ones. An interrupted command continues when it is called again.
    """
    from interlinear.cli.synthetic_data.distillation import distill_dataset

    print(distill_dataset(options))
