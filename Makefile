# Two targets do all the set-up they need, in a virtual environment of their own:
#   make quickstart   check, draw and train a small ladder with and without its memory: a few minutes
#   make test         linters, types, tests
# For a release, on a machine with time:
#   make check-all    all tests with all tools, many cases more, examples, site, coverage, lowest versions

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
LOWEST ?= .venv-lowest
PIP_LOWEST := $(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt
SHORT_JOB := tests/language/test_bad_specs.py tests/wiring/test_attributes.py tests/learn/test_changed_inputs.py \
	tests/experiments/test_identity.py tests/test_escaping.py tests/test_checks.py \
	tests/export/test_onnx.py tests/ablation/test_engines.py \
	tests/learn/test_failures.py::test_metrics_for_tensorboard
SPEC   := specs/ommnist/rladder_quick.yaml
CHAINS := examples/message_passing

.PHONY: quickstart test lint docs docs-site examples gallery bench check-all check-lowest clean

# torch is pinned: left free, pip would fetch the newest build with its accelerator libraries.
$(VENV)/.core: pyproject.toml constraints.txt
	@echo 'Installing ladderspec and PyTorch into $(VENV), which takes a minute or more.'
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[torch]'
	$(BIN)/python -m compileall -q ladderspec
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e '.[dev]'
	touch $@

$(VENV)/.quick: $(VENV)/.core
	$(PIP) -e '.[torch,data,plot]'
	touch $@

# A second `make quickstart` goes on where the first was interrupted, and repeats nothing.
quickstart: $(VENV)/.quick
	$(BIN)/ladderspec validate $(SPEC)
	$(BIN)/ladderspec show $(SPEC)
	mkdir -p out
	$(BIN)/ladderspec draw $(SPEC) --view rolled --variant state --changes -o out/quickstart.svg
	$(BIN)/ladderspec ablate specs/experiments/quickstart.yaml -o out/quickstart --processes 2 --resume
	@echo
	@echo 'Look at out/quickstart.svg (the ladder) and out/quickstart/curves.png;'
	@echo 'docs/quickstart.md explains the results.'
	@echo 'Next: . $(VENV)/bin/activate && ladderspec new mine.yaml'

# One process for each core, with one thread: the tensors of tests are small.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal

# Installs what it may, runs the tests that need it, and prints what could not be checked.
check-all: lint
	VENV=$(VENV) .ci/check-all

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(PIP_LOWEST) -e '.[torch,data,plot,completion,track,export,ray,slurm]' pytest hypothesis jsonschema
	touch $@

# Messages, files, identities, training, resuming and tables with the lowest versions.
check-lowest: $(LOWEST)/.ready
	$(LOWEST)/bin/python -m pip list | grep -i -E '^(torch|pyyaml|networkx|pydantic|graphviz|numpy|safetensors) '
	$(LOWEST)/bin/ladderspec schema | diff - specs/ladderspec.schema.json
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -p no:cacheprovider $(SHORT_JOB)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.dev
	$(BIN)/python docs/make_language.py
	$(BIN)/python docs/make_experiments.py
	$(BIN)/python docs/make_errors.py
	$(BIN)/python docs/make_cells.py
	$(BIN)/python docs/make_results.py
	$(BIN)/ladderspec schema -o specs/ladderspec.schema.json
	$(BIN)/ladderspec schema --experiment -o specs/experiment.schema.json

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) -e '.[docs]'
	touch $@

# The site in out/site; any warning is an error.
docs-site: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Executes the notebooks and saves their outputs; EXECUTE=--check saves nothing.
examples: $(VENV)/.dev
	$(PIP) -e '.[examples]'
	OMP_NUM_THREADS=1 PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python examples/execute.py $(EXECUTE)

gallery: $(VENV)/.dev
	$(BIN)/python docs/make_gallery.py
	$(BIN)/python docs/make_hero.py
	for chain in static temporal; do $(BIN)/ladderspec draw $(CHAINS)/$${chain}_chain.yaml \
		--plugin $(CHAINS)/gaussian_cells.py -o $(CHAINS)/$${chain}_chain.svg; done

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python -m benchmarks.speed --only build overhead stream --seconds 10
	$(BIN)/python -m benchmarks.speed --only train --batches 16 --seconds 30

clean:
	rm -rf $(VENV) $(LOWEST) out .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
