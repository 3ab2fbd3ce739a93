# Every target sets up what it needs in .venv; nothing but python3 (3.11 or later) and make is needed first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.PHONY: help setup demo test lint format ui clean

help:
	@echo "make demo    five strategies train a small model on Countdown; ends with a table and a report"
	@echo "make test    lint and tests"
	@echo "make ui      MLflow and Prefect on the records, on 127.0.0.1"
	@echo "make setup   the environment alone; make lint, make format, make clean"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; name a newer one: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/sara compare --config configs/demo.toml

test: setup lint
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: setup
	$(BIN)/sara ui

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find flows tasks sara tests -name __pycache__ -type d -prune -exec rm -rf {} +
