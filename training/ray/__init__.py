"""Training and data preparation on Ray: Ray Train workers, their driver, Ray Data tasks, and jobs of a cluster.

Importing this package sets the environment variables that Ray and its processes read. The user's own take precedence.
"""

import os
import sys

from training.loop.process_group import COLLECTIVE_TIMEOUT

# A collective's own timeout comes after the workers' deadline, at which they report who is missing.
BACKEND_TIMEOUT = COLLECTIVE_TIMEOUT + 10

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_worker_niceness": "0",  # Ray would run workers at a lower priority than other processes
    "RAY_TRAIN_V2_ENABLED": "1",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.5",  # how soon a worker's death, and the end, are noticed
    "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": f"{BACKEND_TIMEOUT}",  # others detect a hanging worker first
    "RAY_TRAIN_COLLECTIVE_TIMEOUT_S": f"{BACKEND_TIMEOUT}",
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer output of Tune prints to stdout at every verbosity
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the record and MLflow have the results
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a result within an epoch has no score
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the command's own handler lets the trials save
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}
# A process reads this one when it imports Ray. Set later, it would hold for the processes of a local cluster only, and
# the cluster would refuse its own driver.
if "ray" not in sys.modules:
    _ENVIRONMENT["RAY_AUTH_MODE"] = "token"

for _name, _value in _ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
