# make book · make test · make help. GNU make 3.81 or later; PYTHON picks the interpreter, REVS_CACHE the
# cache; PINS=requirements.lock installs only files with known hashes.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
SWEEP ?= quick
PINS ?= requirements.txt

VENV := .venv
PY := $(VENV)/bin/python
# named after the content of the pins: a second call finds it and installs nothing
INSTALLED := $(VENV)/installed-$(shell cat $(PINS) pyproject.toml | cksum | tr -d ' ')
# two test files at a time, each with one thread: a laptop's two cores and its memory suffice; in
# the order given, since the notebooks take longest
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest -q -rs -n 2 --dist loadfile --no-loadscope-reorder
STYLE := $(VENV)/bin/ruff format --check --quiet . && $(VENV)/bin/ruff check --quiet . && $(VENV)/bin/mypy
# notebooks to execute once more, as a reader's Jupyter does; three of them load the model
NBMAKE := notebooks/ssn.ipynb notebooks/core.ipynb notebooks/algorithm.ipynb teaching/lab_key.ipynb

.DEFAULT_GOAL := help
.PHONY: help book test check plan run promote golden record clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' Makefile

book: $(INSTALLED)  ## run the quick sweep and render the book
	@$(PY) -m companion.workflow.build quick

test: $(INSTALLED)  ## style, types, all tests, the strict book, four notebooks once more
	@$(STYLE)
	@$(PY) -m companion.workflow.build quick
	$(PYTEST) --nbmake --nbmake-timeout=900 $(NBMAKE) tests

check: $(INSTALLED)  ## style, types and the quick tests: at most three minutes, before a commit
	@$(STYLE)
	$(PYTEST) -m "not slow" --ignore=tests/rendered --ignore=tests/test_families.py tests

plan: $(INSTALLED)  ## show what SWEEP=quick|main|tune|ablations|… (params/sweeps/) would run: runs, time, downloads
	@$(PY) -m companion.workflow.plan $(SWEEP)

run: $(INSTALLED)  ## make the runs of SWEEP=…, resumable (hours); promote tuned settings before runs that use them
	@$(PY) -m companion.workflow.build $(SWEEP)

promote: $(INSTALLED)  ## copy finished runs to rows/, where they are committed; tuned settings to params/
	@$(PY) -m companion.workflow.promote

golden: $(INSTALLED)  ## rewrite the golden results of tests/golden, after a change that alters results on purpose
	@OMP_NUM_THREADS=1 PYTHONPATH=.:tests $(PY) tests/test_golden.py

record: $(INSTALLED)  ## show what each sweep has recorded and lacks, and how many rows are older than the code
	@$(PY) -m companion.workflow.record

clean:  ## remove build/
	@rm -rf build .snakemake
	@echo "build/ is gone. What stays: the environment in $(VENV)/, and the cache of models:"
	@du -sh "$${REVS_CACHE:-$$HOME/.cache/revs}" 2>/dev/null || echo "(the cache is empty)"

$(INSTALLED):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12), (3, 13)))' 2>/dev/null || { echo 'Python 3.11, 3.12 or 3.13 is needed, but "$(PYTHON)" is not: install one, or name it with PYTHON=/path/to/python3.11.' >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV) || { echo 'The environment could not be made: Python needs its venv module (on Debian: apt install python3-venv).' >&2; exit 1; }
# --no-compile: a module is compiled when it is first imported, and most never are
	@echo "Installing into $(VENV)/: some minutes and 2.5 GB, more where pip takes torch with CUDA, once …"
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-compile -r $(PINS)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@rm -f $(VENV)/installed-*
	@touch $(INSTALLED)
