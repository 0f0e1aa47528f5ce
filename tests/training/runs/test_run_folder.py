"""Which folder a run of a name has."""

from dataclasses import replace
from pathlib import Path

import pytest

from interlinear.errors import TrainingError, UsageError
from training.runs.job import check_run_name, choose_run_folder, locked_run, plan_training


@pytest.mark.parametrize(
    ("present", "name", "new", "newest"),
    [
        ((), "first", "first", None),
        (("first",), "first", "first-2", "first"),
        (("first", "first-2", "first-10"), "first", "first-11", "first-10"),
        (("first", "first-2", "first-2-3", "first-x", "second-4"), "first", "first-3", "first-2"),
        (("first-2",), "first-2", "first-2-2", "first-2"),
        # Names of their own, not further runs of a name.
        (("baseline-20240101",), "baseline", "baseline", None),
        (("seed-07", "seed-1", "seed-0"), "seed", "seed", None),
        (("seed", "seed-07", "seed-1"), "seed", "seed-2", "seed"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_a_run_has_a_folder_of_its_own_and_the_newest_is_resumed(
    tmp_path: Path, present: tuple[str, ...], name: str, new: str, newest: str | None, stored: bool
) -> None:
    for one in () if stored else present:
        (tmp_path / one).mkdir()
    stored_names = present if stored else ()
    assert choose_run_folder(tmp_path, name, False, stored_names) == tmp_path / new
    if newest:
        assert choose_run_folder(tmp_path, name, True, stored_names) == tmp_path / newest
    else:
        with pytest.raises(TrainingError, match="there is no run of that name to resume"):
            choose_run_folder(tmp_path, name, True, stored_names)


def test_two_trainings_that_begin_at_once_have_runs_of_their_own(tmp_path: Path) -> None:
    plan = plan_training("rnnsearch", "demo", runs=tmp_path, run="first")
    with locked_run(plan, "first") as one, locked_run(plan, "first") as other:
        assert (one.name, other.name) == ("first", "first-2")
        other.run.mkdir()
    plan.run.mkdir()  # by a training that began after the plan, and has ended
    with locked_run(plan, "first") as third:
        assert third.name == "first-3"
    resumed = replace(plan, resume=True)
    with (
        locked_run(resumed, "first"),
        pytest.raises(TrainingError, match="is training this run"),
        locked_run(resumed, "first"),
    ):
        pass


@pytest.mark.parametrize("name", ["", ".", "..", "...", "a/b", "a b"])
def test_names_that_no_run_may_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a run"):
        choose_run_folder(tmp_path, name, False)


def test_names_may_have_dots(tmp_path: Path) -> None:
    for name in ("first.2", ".first", "a..b"):
        check_run_name(name)
