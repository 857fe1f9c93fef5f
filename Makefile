# Every target does its own set-up. `make help` lists them from the comments after `##`.
#
# .venv is built in stages, each marked by a file inside it: `light` (core and drawing), `full`
# (what the tests need), `lab` (full and JupyterLab). A later stage is added to an earlier one.

SHELL := /bin/bash
VENV  ?= .venv
PY    := $(VENV)/bin/python
JOBS  ?= 2

PYTHONS := python3 python3.13 python3.12 python3.11

# One seed for everything the tests draw: sampled cases, hypothesis, random inputs.
FA4SIM_SEED ?= 20260305
export FA4SIM_SEED

OPT_IN := not device and not official
FAST   := not slow and not notebook and not browser and $(OPT_IN)
PYTEST := $(PY) -m pytest -n $(JOBS) --dist worksteal

# pip tells why it failed only if it may speak: `make QUIET= setup`.
QUIET     ?= --quiet --quiet
PIP_FLAGS := $(QUIET) --disable-pip-version-check --constraint constraints.txt
PIP_ADVICE = { echo 'pip could not install it. To see all that pip says: make QUIET= $(MAKECMDGOALS)' >&2; exit 1; }

# An interpreter that no longer runs (moved folder, upgraded Python) makes all stages stale.
VENV_OK := $(shell $(PY) -c 'print("yes")' 2>/dev/null)
NEEDS   := pyproject.toml constraints.txt $(if $(VENV_OK),,new-venv)
LIGHT   := $(if $(wildcard $(VENV)/full),$(VENV)/full,$(VENV)/light)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-rest official check lint types format notebooks lab bench maps \
        docs site pins clean distclean new-venv

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' \
	  | while IFS=$$'\t' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

setup: $(VENV)/full ## build .venv with everything the tests need

demo: $(LIGHT) ## simulate FA4 on a B200, check the numbers, write pictures and a trace to out/
	$(PY) -m fa4sim demo --out out

test: $(VENV)/full ## fast tests, under 5 minutes on 2 cores
	$(PYTEST) -m "$(FAST)"

test-all: $(VENV)/full ## all tests: slow, notebooks, browser; FA4SIM_SEED picks the sample
	@echo "FA4SIM_SEED=$(FA4SIM_SEED)"
	$(PYTEST) -m "$(OPT_IN)" --durations 15

test-rest: $(VENV)/full ## what `make test` leaves out: slow, notebooks, browser
	@echo "FA4SIM_SEED=$(FA4SIM_SEED)"
	$(PYTEST) -m "(slow or notebook or browser) and $(OPT_IN)" --durations 15

check: lint types test ## what a commit must pass: ruff, mypy, fast tests

lint: $(VENV)/full ## ruff: lint and format, changing nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: $(VENV)/full ## mypy
	$(PY) -m mypy

format: $(VENV)/full ## ruff: mend what can be mended
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

official: $(VENV)-official/full $(VENV)/full ## a sample of the official kernel's cases, in the emulator
	@echo "FA4SIM_SEED=$(FA4SIM_SEED)"
	FA4_PYTHON=$(abspath $(VENV)-official/bin/python) $(PYTEST) -m official tests/official tests/crosscheck --durations 5

notebooks: $(VENV)/full ## execute every notebook
	$(PYTEST) -m notebook --durations 0 tests/test_notebooks.py

lab: $(VENV)/lab ## open the notebooks in JupyterLab
	$(PY) -m jupyterlab --notebook-dir notebooks

docs: $(VENV)/full ## build the site in build/site/html: notebooks executed, warnings are errors, links checked
	$(PY) docs/site/build.py
	$(PY) docs/site/check.py

site: docs ## build the site and serve it at http://localhost:8000
	$(PY) -m http.server --bind localhost --directory build/site/html 8000

maps: $(VENV)/full ## sweep and draw docs/maps.md
	$(PY) -m benchmarks.maps.run

bench: $(VENV)/full ## measure speed and write docs/benchmarks.md
	$(PY) -m benchmarks.run

pins: ## write the second part of constraints.txt from the newest releases
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(find_python); "$$python" -m venv "$$dir/venv"; \
	sed '/^# -- written by/q' constraints.txt >"$$dir/chosen"; \
	"$$dir/venv/bin/python" -m pip install --quiet -c "$$dir/chosen" '.[dev,notebooks]'; \
	"$$dir/venv/bin/python" -m pip freeze --exclude fa4sim | grep -vE '^(torch|nvidia-.*)=' >"$$dir/pins"; \
	cat "$$dir/chosen" "$$dir/pins" >constraints.txt

clean: ## remove what the commands wrote (not .venv)
	rm -rf out build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	rm -rf $(VENV) $(VENV)-official

# --- the environment ---------------------------------------------------------------------------

# Sets $$python to the first interpreter that runs and is new enough; PYTHON=... names the only one.
define find_python
for python in $(or $(PYTHON),$(PYTHONS)); do \
  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then break; fi; \
  python=; \
done; \
if [ -z "$$python" ]; then \
  echo "fa4sim needs Python 3.11 or newer; looked for: $(or $(PYTHON),$(PYTHONS))." \
       "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
  exit 1; \
fi
endef

new-venv:
	@$(find_python); \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "$$python cannot build virtual environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; \
	fi; \
	echo "Building $(VENV) with $$("$$python" --version)"; \
	"$$python" -m venv --clear $(VENV)

$(VENV)/light: $(NEEDS)
	@echo 'Installing the core and drawing ...'
	@$(PY) -m pip install $(PIP_FLAGS) --editable '.[viz]' || $(PIP_ADVICE)
	@touch $@

$(VENV)/full: $(NEEDS)
	@echo 'Installing everything the tests need (2 GB, or several more with CUDA for PyTorch; some silent minutes) ...'
	@$(PY) -m pip install $(PIP_FLAGS) --editable '.[dev]' || $(PIP_ADVICE)
	@touch $@

# The official package has an environment of its own, so that what it brings changes nothing here.
$(VENV)-official/full: pyproject.toml constraints.txt
	@$(MAKE) --no-print-directory VENV=$(VENV)-official new-venv
	@echo 'Installing the official FlashAttention-4 package ...'
	@$(VENV)-official/bin/python -m pip install $(PIP_FLAGS) '.[official]' || $(PIP_ADVICE)
	@touch $@

$(VENV)/lab: $(VENV)/full
	@echo 'Installing JupyterLab ...'
	@$(PY) -m pip install $(PIP_FLAGS) --editable '.[notebooks]' || $(PIP_ADVICE)
	@touch $@
