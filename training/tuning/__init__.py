"""Tuning of a recipe on the dev set: the search space, its trials, and the record from which a tuning resumes.

Nothing here knows of Ray: `training/ray/tune.py` runs the trials.
"""

from training.tuning.record import EpochResult, TrialRecord, TuningRecord
from training.tuning.space import Range, SearchSpace, default_space, read_space

__all__ = ["EpochResult", "Range", "SearchSpace", "TrialRecord", "TuningRecord", "default_space", "read_space"]
