# Two commands on a fresh machine with Python 3.11 - 3.13 and make: `make demo` and `make test`. Each sets itself up.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c '$(FITS)' 2>/dev/null && echo $$python && break; done)
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --constraint constraints.txt

# Tests of one file run one after another, and two files at a time: more would need more memory than processors.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

.PHONY: help demo test check test-ci test-slow cluster-test stack-up stack-test stack-down clean

help:  ## say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: .venv/.demo  ## from nothing to a served translation: corpus, training, registry, service, picture (8 minutes at most)
	@$(BIN)/interlinear demo

test: check  ## check, then every test that is not slow
	@$(PYTEST)

check: .venv/.dev  ## ruff, mypy, import-linter
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "make check: these files are not formatted; run $(BIN)/ruff format ." >&2; \
		$(BIN)/ruff format --check . >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo > .venv/imports.txt || { cat .venv/imports.txt >&2; exit 1; }
	@echo "ruff, ruff format, mypy, import-linter: nothing to say"

test-ci: .venv/.dev  ## the slow tests that CI runs after these: faults of the service, Ray Serve, the wheel (10 minutes)
	@$(PYTEST) -m ci

test-slow: .venv/.dev  ## the tests that take minutes: full trainings, soak, kills, the wheel in an empty environment
	@$(PYTEST) -m "slow and not gpu" --timeout 3600

cluster-test: .venv/.dev  ## several hosts in network namespaces: workers, nodes, heads and networks that fail (as root)
	@$(BIN)/python -m pytest -m cluster --timeout 3600

stack-up: .venv/.dev  ## the stack of docker-compose.yml as processes, without Docker (root; docs/deploy-compose.md)
	@$(BIN)/python -m deploy.local up

stack-test: .venv/.dev  ## submit trainings, promote and translate through the stack that is up
	@$(BIN)/python -m deploy.local test

stack-down: .venv/.dev  ## end the stack, and remove what it kept
	@$(BIN)/python -m deploy.local down --volumes

clean:  ## remove what these commands made; data, runs and the registry stay
	rm -rf .venv demo build dist .mypy_cache .ruff_cache .hypothesis

# Set-up: a stamp says that it is done for this pyproject.toml and these constraints. Torch comes first, so that a wheel
# which is already there for this machine (CPU or CUDA) is what everything else is resolved against.
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
