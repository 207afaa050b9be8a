# Each command sets up what it needs, once. PYTHON picks the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test browser check bench studies screenshots clean

run: $(VENV)/.demo var/bundles/cars
	@echo "Serving the demo: open http://127.0.0.1:8000 in a browser (the API: /docs). Or, in another terminal:"
	@echo "  curl -s localhost:8000/predict -d '{\"target\": \"mpg\", \"rows\": [{\"weight\": 3504, \"cylinders\": 8}]}'"
	@$(BIN)/python -m service --bundle var/bundles/cars

test: $(VENV)/.dev browser check
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not alone"
	$(BIN)/python -m pytest -m alone

# The page's tests need Chromium; where it cannot be had they are skipped, unless CI=true.
browser: $(VENV)/.dev
	@$(BIN)/python -m tests.browser

# The pictures in docs/screens, the page's weight and how long an answer takes.
screenshots: $(VENV)/.dev browser var/bundles/cars
	$(BIN)/python -m tests.screenshots

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.repro
	$(BIN)/python -m training bench predict
	$(BIN)/python -m training bench impute
	$(BIN)/python -m training bench impute --matched
	$(BIN)/python -m training bench audit
	$(BIN)/python -m training bench pooling
	$(BIN)/python -m training bench match
	$(BIN)/python -m training bench speed
	$(BIN)/python -m training bench scale
	$(BIN)/python -m training bench parallel
	$(BIN)/python -m training bench serving
	$(MAKE) studies

# The paper's studies: hours. The two long ones, broken off, go on from where they were.
studies: $(VENV)/.repro
	mkdir -p var
	$(BIN)/python -m training reproduce auto-mpg
	$(BIN)/python -m training reproduce toy-corpus
	$(BIN)/python -m training reproduce analogies
	$(BIN)/python -m training reproduce overlap --resume var/overlap.jsonl
	$(BIN)/python -m training reproduce simulated --resume var/simulated.jsonl
	rm var/overlap.jsonl var/simulated.jsonl

clean:
	rm -rf $(VENV) var build *.egg-info

var/bundles/cars: | $(VENV)/.demo
	$(BIN)/python -m training demo --out $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.repro: pyproject.toml | $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[train,demo,repro]"
	@touch $@

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[train,demo]"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -e ".[train,demo,dev]"
	@touch $@ $(VENV)/.demo
