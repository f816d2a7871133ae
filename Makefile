# make book · make test · make help. Works with GNU make 3.81 and later; PYTHON picks the interpreter, REVS_CACHE the cache.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
PROFILE ?= quick
A ?= paper
B ?= build
BASE ?= HEAD
EACH ?=

# two test files at a time, each with one thread: a laptop's two cores and its memory suffice
PARALLEL := -n 2 --dist loadfile

VENV := .venv
PY := $(VENV)/bin/python
# named after the content of the pins: a second call finds it and installs nothing
INSTALLED := $(VENV)/installed-$(shell cat requirements.txt pyproject.toml | cksum | tr -d ' ')

.DEFAULT_GOAL := help
.PHONY: help book test plan tune core ablations organic gptj-tune gptj integrity integrity-large calibrate bench record paper pile adopt verify conformance mistakes slurm-try again compare clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

book: $(INSTALLED)  ## run the quick profile and render the book
	@$(PY) -m companion.workflow.build quick

test: $(INSTALLED)  ## unit, property, oracle and notebook tests, and the strict book
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -rs $(PARALLEL) tests --ignore tests/rendered
	@$(PY) -m companion.workflow.build quick
	$(PY) -m pytest -q tests/rendered
	@$(PY) -m companion.workflow.nbtest
	OMP_NUM_THREADS=1 $(PY) -m pytest -q $(PARALLEL) --nbmake --nbmake-timeout=1800 build/nbtest

plan: $(INSTALLED)  ## what PROFILE=quick|tune|core|ablations|organic|gptj-tune|gptj|integrity|integrity-large|calibrate|bench|paper|pile would run: runs, hours, memory, disk, downloads
	@$(PY) -m companion.workflow.plan $(PROFILE)

tune: $(INSTALLED)  ## every method's hyperparameters, resumable (hours)
	@$(PY) -m companion.workflow.build tune

core: $(INSTALLED)  ## the core table's rows from nothing, resumable (six hours)
	@$(PY) -m companion.workflow.build core

ablations: $(INSTALLED)  ## the ablation tables' rows from nothing, resumable (six hours)
	@$(PY) -m companion.workflow.build ablations

organic: $(INSTALLED)  ## find and unlearn what a pretrained model memorised on its own, resumable (hours; 24 GiB)
	@$(PY) -m companion.workflow.build organic

gptj-tune: $(INSTALLED)  ## settings of every method for a small model of GPT-J's architecture, resumable; adopt them before gptj (hours)
	@$(PY) -m companion.workflow.build gptj-tune

gptj: $(INSTALLED)  ## the core table and the curves of that model, with its settings, resumable (hours)
	@$(PY) -m companion.workflow.build gptj

integrity: $(INSTALLED)  ## MMLU and GSM8K before and after every method; REVS_BENCHMARKS names their folder, or the hub (hours)
	@$(PY) -m companion.workflow.build integrity

integrity-large: $(INSTALLED)  ## the same of a model that can answer, with fewer items (hours; its page says what comes first)
	@$(PY) -m companion.workflow.build integrity-large

calibrate: $(INSTALLED)  ## margins calibrated on half of a model's secrets against the paper's, on the other half, and the way from documents to a report, resumable (an hour)
	@$(PY) -m companion.workflow.build calibrate

bench: $(INSTALLED)  ## how fast everything is, and the layer-major order, resumable (hours, on a machine that does nothing else)
	@$(PY) -m companion.workflow.build bench

record: tune adopt core ablations  ## all of the embedded model; settings are adopted before they are used, the rest by make adopt

paper: $(INSTALLED)  ## the same with the paper's models and settings (a GPU)
	@$(PY) -m companion.workflow.build paper

pile: $(INSTALLED)  ## what the paper's models memorised of The Pile, found and unlearned (GPUs; the challenge's files in data/pile)
	@$(PY) -m companion.workflow.build pile

adopt: $(INSTALLED)  ## copy finished rows to rows/, where they are committed; tuned settings to params/hyperparameters.yml
	@$(PY) -m companion.workflow.adopt

verify: $(INSTALLED)  ## after a change of code that should change no result: small runs by the code of BASE and by this one; equal, and the recorded rows hold
	@$(PY) -m companion.workflow.verify "$(BASE)" $(EACH)

conformance: $(INSTALLED)  ## every family of decoders against the promises of tests/test_families.py, as rows/conformance.json
	@$(PY) -m companion.workflow.conformance

mistakes: $(INSTALLED)  ## every kind of wrong input with the message of tests/test_mistakes.py, as rows/mistakes.json
	@$(PY) -m companion.workflow.mistakes

slurm-try: $(INSTALLED)  ## try the Slurm profile on a Slurm of its own on the loopback (root, Debian; minutes), as rows/slurm.json
	@$(PY) -m companion.workflow.slurm_try

again: $(INSTALLED)  ## put all that was built aside, build it again, and compare rows, tables and pixels (half an hour), as rows/again.json
	@$(PY) -m companion.workflow.again

compare: $(INSTALLED)  ## two sets of rows side by side: A, B = paper, record, build or a folder
	@$(PY) -m companion.pages.compare "$(A)" "$(B)"

clean:  ## remove build/
	@rm -rf build .snakemake
	@echo "build/ is gone. What stays: the environment in $(VENV)/, and the cache of models:"
	@du -sh "$${REVS_CACHE:-$$HOME/.cache/revs}" 2>/dev/null || echo "(the cache is empty)"

$(INSTALLED):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' 2>/dev/null || { echo 'Python 3.11 or 3.12 is needed, but "$(PYTHON)" is not: install one, or name it with PYTHON=/path/to/python3.11.' >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV) || { echo 'The environment could not be made: Python needs its venv module (on Debian: apt install python3-venv).' >&2; exit 1; }
	@echo "Installing into $(VENV)/: some minutes and 1.5 GB, once …"
	@date +%s > $(VENV)/install-seconds
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@echo $$(( $$(date +%s) - $$(cat $(VENV)/install-seconds) )) > $(VENV)/install-seconds
	@rm -f $(VENV)/installed-*
	@touch $(INSTALLED)
