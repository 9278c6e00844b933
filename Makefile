PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Compiled modules are kept, also where the environment says otherwise: compiling them takes a third of the start of the tests.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup run test test-all test-slow test-cluster installed readme docs lint bench clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/'

run: $(READY)  ## the default experiment, offline; add ARGS="experiment=clark_table3"
	$(BIN)/python train.py $(ARGS)

test: $(READY)  ## the tests, but for those that take long (tests/slow.txt)
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(ARGS)

test-all: $(READY) installed  ## the wheel in an empty environment, then all tests
	$(BIN)/python -m pytest -n auto --dist worksteal --ignore=tests/cluster $(ARGS)
	$(MAKE) test-cluster

test-cluster: $(READY)  ## the tests on clusters, one after another: Ray, which is installed; SLURM and network namespaces where they are there
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[ray]"
	$(BIN)/python -m pytest tests/cluster $(ARGS)

test-slow: $(READY)  ## the tests that take long, alone
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow $(ARGS)

installed: $(READY)  ## the wheel, installed and run in an empty environment, against this checkout
	$(BIN)/python -m tests.installed

readme: $(READY)  ## every command of README.md and docs/, run on samples
	$(BIN)/python -m tests.readme_commands --run $(ARGS)

docs: $(READY)  ## the site of docs/, into site/; a warning fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet $(ARGS)

lint: $(READY)  ## style of code and imports, format of the pages
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/python -m tests.types
	$(BIN)/python -m tests.javascript

bench: $(READY)  ## speed, as ratios against the obvious way
	$(BIN)/python -m benchmarks $(ARGS)

setup: $(READY)  ## the environment in .venv, installed once

$(READY): pyproject.toml constraints.txt packaged.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	$(BIN)/python -m pip install --quiet --no-deps --requirement packaged.txt
	touch $(READY)

clean:  ## remove the environment
	rm -rf .venv
