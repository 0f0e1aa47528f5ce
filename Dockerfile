# Images of Interlinear. Three targets, each without root and with a read-only root file system:
#
#   train       Ray, MLflow's client and every command: head, workers, jobs
#   serve       the service only
#   tracking    MLflow's server with PostgreSQL's driver and basic authentication; no torch
#
#   docker build --target serve --tag interlinear-serve:0.1.0 .
#   docker build --target train --build-arg TORCH_INDEX= --tag interlinear-train:0.1.0 .       with CUDA
#
# TORCH_INDEX is the package index of torch's wheel: by default that of CPU builds; empty means pip's default index,
# whose Linux wheel includes CUDA. `make digests` pins BASE by content.
ARG BASE=python:3.11.15-slim-bookworm

# ---- torch, in a separate environment: the largest layer, which changes least
FROM ${BASE} AS torch
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/interlinear/bin:$PATH
WORKDIR /src
RUN python -m venv /opt/interlinear
COPY constraints.txt ./
# Without its dependencies, which are installed from pip's default index with everything else.
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} --no-deps --constraint constraints.txt torch

# ---- our own code as a wheel
FROM ${BASE} AS wheel
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

# ---- dependencies, from pyproject.toml only, so that a change of code does not reinstall them
FROM torch AS serve-packages
COPY pyproject.toml docker/requirements.py ./
RUN python requirements.py serve postgres > requirements.txt \
    && pip install --constraint constraints.txt --requirement requirements.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps /wheels/*.whl

FROM torch AS train-packages
COPY pyproject.toml docker/requirements.py ./
RUN python requirements.py train serve postgres > requirements.txt \
    && pip install --constraint constraints.txt --requirement requirements.txt
COPY --from=wheel /wheels /wheels
RUN pip install --no-deps /wheels/*.whl

FROM ${BASE} AS tracking-packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PATH=/opt/interlinear/bin:$PATH
WORKDIR /src
RUN python -m venv /opt/interlinear
COPY constraints.txt pyproject.toml docker/requirements.py ./
RUN python requirements.py --only tracking > requirements.txt \
    && pip install --constraint constraints.txt --requirement requirements.txt

# ---- runtime of all three: a numeric user id (required by Kubernetes), and the folders on which volumes are mounted
FROM ${BASE} AS runtime
RUN groupadd --gid 10001 interlinear \
    && useradd --uid 10001 --gid 10001 --create-home --home-dir /home/interlinear --shell /usr/sbin/nologin interlinear \
    && install -d -o 10001 -g 10001 /srv/interlinear /var/lib/interlinear /var/lib/mlflow /var/cache/interlinear
ENV PATH=/opt/interlinear/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 \
    HOME=/home/interlinear XDG_CACHE_HOME=/var/cache/interlinear MPLCONFIGDIR=/tmp/matplotlib \
    RAY_AUTH_MODE=token RAY_USAGE_STATS_ENABLED=0 MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true
WORKDIR /srv/interlinear
USER 10001:10001
STOPSIGNAL SIGTERM

FROM runtime AS tracking
COPY --from=tracking-packages /opt/interlinear /opt/interlinear
EXPOSE 5000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
CMD ["mlflow", "server", "--help"]

FROM runtime AS train
USER 0:0
# KubeRay's probes call wget. The base image's distribution has only one version of it.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
USER 10001:10001
COPY --from=train-packages /opt/interlinear /opt/interlinear
EXPOSE 6379 8265
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:52365/api/local_raylet_healthz', timeout=8)"]
CMD ["interlinear", "--help"]

FROM runtime AS serve
ENV INTERLINEAR_SERVE_KEYS=/var/lib/interlinear/keys.db
COPY --from=serve-packages /opt/interlinear /opt/interlinear
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/health/live', timeout=4)"]
CMD ["interlinear", "serve", "--host", "0.0.0.0", "--require-key", "--set", "log_format=json"]
