# On a new machine with Python 3.11 - 3.13 and make: `make demo` and `make test`. Each installs what it needs into .venv.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c '$(FITS)' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt

# Three processes keep two cores busy, since tests wait for browsers and for what they have started; they take 5 GiB. Slow
# tests wait for less and need more, and those of one file share what takes long to start.
QUICK := -m pytest --numprocesses 3 --dist worksteal
SLOW := -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: help demo test check coverage test-ci test-all cluster-test stack-up stack-test stack-down digests clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: .venv/.demo  ## end to end: corpus, training, registry, service, figure (8 minutes at most)
	@$(BIN)/interlinear demo

test: check  ## check, then every test that is not slow (12 minutes on two cores with AVX2)
	@$(BIN)/python $(QUICK)

coverage: .venv/.dev  ## the tests of `make test` again, and the lines and branches that they run
	@$(BIN)/coverage erase
	@$(BIN)/coverage run $(QUICK)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --skip-empty

check: .venv/.dev  ## ruff, mypy, import-linter
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "make check: these files are not formatted; run $(BIN)/ruff format ." >&2; \
		$(BIN)/ruff format --check . >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .venv/imports.txt || { cat .venv/imports.txt >&2; exit 1; }
	@echo "ruff, ruff format, mypy, import-linter: no findings"

test-ci: .venv/.dev  ## the slow tests that CI runs after these: faults of the service, Ray Serve, the wheel (3 minutes)
	@$(BIN)/python $(SLOW) -m ci

test-all: check  ## every test, the slow ones too: every recipe, full trainings, soak, kills, benchmarks (90 minutes)
	@$(BIN)/python $(SLOW) -m "not gpu and not cluster" --timeout 3600

cluster-test: .venv/.dev  ## failures of workers, nodes, heads and networks, on hosts in network namespaces (as root)
	@$(BIN)/python -m pytest -m cluster --timeout 3600

stack-up: .venv/.dev  ## start the stack of docker-compose.yml as processes, without Docker (root; docs/deploy-compose.md)
	@$(BIN)/python -m tests.stack up

stack-test: .venv/.dev  ## submit trainings, promote and translate through the running stack, or one of its own
	@$(BIN)/python -m pytest -m slow tests/stack/test_running.py

stack-down: .venv/.dev  ## stop the stack, and remove its data
	@$(BIN)/python -m tests.stack down

digests:  ## pin the images of other projects by content, with Docker and a network
	@sh docker/digests.sh docker-compose.yml Dockerfile deploy/kubernetes/*.yaml

clean:  ## remove files made by these commands; data, runs and the registry stay
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .hypothesis

# Set-up: stamp files, made again when pyproject.toml or constraints.txt change. Torch is installed first, so that the
# other packages are resolved against the build (CPU or CUDA) that is available for this machine.
.venv/.demo: pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then echo "make: no Python 3.11, 3.12 or 3.13 found. Install one, or say make PYTHON=..." >&2; exit 2; fi
	@echo "Setting up .venv with $$($(PYTHON) --version): a few minutes, the first time only" >&2
	@$(PYTHON) -m venv .venv
	@$(INSTALL) torch
	@$(INSTALL) --editable '.[train,serve]'
	@touch $@

.venv/.dev: .venv/.demo
	@echo "Adding the tools for checks and tests" >&2
	@$(INSTALL) --editable '.[train,serve,dev]'
	@touch $@
