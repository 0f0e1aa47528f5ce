"""What a tuning logs to MLflow of trials whose earlier process was killed."""

from pathlib import Path

import mlflow

from tests.training.toy import toy_job
from training.events import StartReport
from training.loop.trainer import train
from training.tracking.tuning import TrialTrackers
from training.tuning.record import EpochFile, read_epochs


def test_epochs_that_a_killed_process_could_not_log_are_logged_by_the_next_one(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    job = toy_job(tmp_path, "trial-01", settings=["training.epochs=3"])
    train(job, None, [EpochFile(job.run)])
    trained = read_epochs(job.run)
    assert len(trained) == 3

    def logged_after_resuming_from(update: int) -> list[tuple[int, float]]:
        resumed = toy_job(tmp_path, "trial-01", resume=True, settings=["training.epochs=3"])
        start = StartReport(parameters=1, pairs=1, updates_per_epoch=1, updates_done=update)
        with TrialTrackers(job.run.parent, {"trial-01": resumed}, "toy", {}, uri, lambda _: None) as trackers:
            trackers.started("trial-01", resumed, start)
        client = mlflow.MlflowClient(uri)
        (experiment,) = client.search_experiments(filter_string="name = 'toy'")
        (run,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'trial-01'")
        return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, "dev/bleu")]

    expected = [(epoch.update, epoch.dev_bleu) for epoch in trained]
    assert logged_after_resuming_from(trained[1].update) == expected[:2], "the third is trained and logged again"
    assert logged_after_resuming_from(trained[2].update) == expected, "and none twice"
