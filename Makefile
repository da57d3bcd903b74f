# Two commands need nothing but python3, pip and make:   make demo   make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
export PYTHONDONTWRITEBYTECODE :=  # else every process compiles 600 files of code and tests anew

.PHONY: help demo test quick-tests test-long test-all lint types bench bench-tables bench-scale audit mutants mutate fuzz durability reproduce docs clean
help:            ## list the targets
	@awk -F ':.*## *' '/^[a-z-]+:.*##/ { printf "%-12s%s\n", $$1, $$2 }' Makefile

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV); }

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -q -c constraints.txt -e '.[plots]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -q -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) install -q -c constraints.txt -e '.[docs]'
	@touch $@

demo: $(VENV)/.installed   ## train a private classifier on bundled data and show what it costs
	$(BIN)/dpmac demo

test: lint                 ## lint, types and all tests but the long ones
	@$(MAKE) --no-print-directory -j 2 types quick-tests  # one core would wait for mypy

quick-tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist loadfile  # a file's tests share what they have fitted

test-long: $(VENV)/.installed-dev ## the tests marked long: long ascents, whole trainings
	$(BIN)/python -m pytest -n 2 --dist loadfile -m long

test-all: test test-long   ## everything

lint: $(VENV)/.installed-dev  ## ruff
	$(BIN)/ruff check --no-cache .  # a cache does not notice that a module it imports has moved
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## mypy --strict over src/, reproduction/ and mutants/
	$(BIN)/mypy

bench: $(VENV)/.installed-dev ## side by side with Opacus and plain torch: time and memory of a step, whole fits (DPMAC_DATA)
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/python benchmarks/modules.py
	$(BIN)/python benchmarks/modules.py --memory
	$(BIN)/python benchmarks/z_steps.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/planning.py --cases 40
	$(BIN)/python benchmarks/memory.py --cases 784-300-10 --batches 256 1024 4096
	$(BIN)/python benchmarks/whole_fits.py --fits 1 --cap 120 --out runs/whole_fits_quick

bench-tables: $(VENV)/.installed-dev ## private models on real tables, beside DP-EBM, diffprivlib, Opacus, DP-XGBoost, MST and AIM (DPMAC_DATA; many hours on 2 cores; resumable)
	$(PIP) install -q -c constraints.txt -e '.[peers]'
	$(BIN)/python benchmarks/tables.py --fits 5

bench-scale: $(VENV)/.installed-dev ## over processes, over rows that do not fit into memory, and on paper (20 minutes; 8 GB of disk; resumable)
	$(BIN)/python benchmarks/scale.py --large

audit: $(VENV)/.installed ## try to prove the build's claims wrong: lower bounds on epsilon by attacks, for release notes (an hour on 2 cores)
	$(BIN)/dpmac audit --full

mutants: $(VENV)/.installed-dev ## privacy bugs put into copies of the package, one at a time: the tests must notice each (a quarter of an hour; resumable)
	$(BIN)/python -m mutants

mutate: $(VENV)/.installed-dev ## every simple bug in every line that must be trusted, by machine: does a test notice? (an hour or two on 2 cores; resumable)
	$(BIN)/python -m mutants.machine run

fuzz: $(VENV)/.installed-dev ## odd inputs of all kinds: each succeeds or is refused in our words, and leaves nothing behind (CASES=10000 SEED=0; minutes; resumable)
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --cases $(or $(CASES),10000) --seed $(or $(SEED),0)
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 -m 'hypothesis and not long'

durability: $(VENV)/.installed-dev ## kills, full disks, torn files, two at a time, for real (KILLS=50 SEED=0; ten minutes; as root also mounts and permissions)
	OMP_NUM_THREADS=1 KILLS=$(or $(KILLS),50) SEED=$(or $(SEED),0) $(BIN)/python -m pytest -s -m '' tests/durability tests/training/test_together_killed.py

reproduce: $(VENV)/.installed ## the paper's tables and figures, 10 runs of both presets (hours on a CPU; resumable)
	$(BIN)/python -m reproduction all --runs 10 --preset both --out runs/reproduce

docs: $(VENV)/.installed-docs ## the documentation, strictly, into site/ (open site/index.html; behind `python -m http.server` it can be searched)
	$(BIN)/python docs/making/pages.py build/docs
	$(BIN)/zensical build --clean --strict
	$(BIN)/python docs/making/pages.py --check site

clean:           ## remove the environment and what the commands wrote
	rm -rf $(VENV) runs build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
