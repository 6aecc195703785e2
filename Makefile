# make demo, make test and make check set up .venv by themselves: all they need is Python 3.11 or newer.
#
#   PYTHON=...   the interpreter to use (default: the first one below that is new enough)
#   JOBS=2       test processes side by side
#   MINUTES=60   how long make test-long goes on
#   BENCH=...    what make bench and make bench-peers are asked: their --help says what there is

PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
JOBS ?= 2
MINUTES ?= 60
BENCH ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# True of an interpreter that can run sawlog and make a virtual environment.
FITS := import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))
# What must agree for a virtual environment to be that of a given interpreter.
SAME := import sys; print(sys.version, sys.base_prefix)

.PHONY: help demo test test-long test-lowest bench bench-peers check clean FORCE

help:
	@echo "make demo         run the main job end to end, offline"
	@echo "make test         run the whole suite, PostgreSQL included"
	@echo "make test-long    look for counterexamples to the laws for MINUTES=$(MINUTES)"
	@echo "make test-lowest  run the suite with the lowest dependencies that pyproject.toml allows"
	@echo "make bench        measure sawlog against bare databases; BENCH=--help says what it can"
	@echo "make bench-peers  the same for other libraries, in an environment of its own"
	@echo "make check        lint and types"
	@echo "make clean        remove what these commands made"

demo: $(VENV)/.demo
	$(BIN)/sawlog demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not alone"
	$(BIN)/python -m pytest -m alone

test-long: $(VENV)/.dev
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); round=0; \
	while [ $$(date +%s) -lt $$end ]; do \
	    round=$$((round + 1)); \
	    echo "round $$round, $$(((end - $$(date +%s)) / 60)) minutes left"; \
	    $(BIN)/python -m pytest -n $(JOBS) -m long --hypothesis-profile=long || exit 1; \
	done

# Turns each lower bound of a dependency into the version itself; dev tools are left as they are.
LOWEST := import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; o = p["optional-dependencies"]; \
    print(*(d.replace(">=", "==") for d in p["dependencies"] + o["providers"] + o["postgresql"] + o["tokens"] + o["watch"] + o["proxy"]), sep="\n")

test-lowest:
	$(MAKE) VENV=.venv-lowest .venv-lowest/.dev
	.venv-lowest/bin/python -c '$(LOWEST)' > .venv-lowest/lowest.txt
	.venv-lowest/bin/python -m pip --disable-pip-version-check install --quiet -r .venv-lowest/lowest.txt
	$(MAKE) VENV=.venv-lowest test

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(BENCH)

# An environment of its own: the libraries bring many others along.
bench-peers:
	$(MAKE) VENV=.venv-bench .venv-bench/.bench
	.venv-bench/bin/python -m benchmarks.peers $(BENCH)

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright --pythonpath $(BIN)/python

clean:
	rm -rf .venv .venv-lowest .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Runs every time, but touches pyvenv.cfg only when it makes the environment: when there is none,
# when its interpreter is gone or too old, or when PYTHON=... names another one.
$(VENV)/pyvenv.cfg: FORCE
	@python=; \
	for candidate in $(PYTHON); do \
	    if "$$candidate" -c '$(FITS)' 2>/dev/null; then python=$$candidate; break; fi; \
	done; \
	if $(BIN)/python -c '$(FITS)' 2>/dev/null; then \
	    $(BIN)/python -c 'import pip' 2>/dev/null || $(BIN)/python -m ensurepip >/dev/null || exit 1; \
	    case "$(origin PYTHON)" in file|default) exit 0;; esac; \
	    if [ -n "$$python" ] && [ "$$("$$python" -c '$(SAME)')" = "$$($(BIN)/python -c '$(SAME)')" ]; then \
	        exit 0; \
	    fi; \
	fi; \
	if [ -z "$$python" ]; then \
	    echo "sawlog needs Python 3.11 or newer with its venv module; tried: $(PYTHON)." >&2; \
	    echo "Install one (Debian, Ubuntu: python3 and python3-venv) or name it: make PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$python" -c 'import sys; print(sys.executable, sys.version.split()[0])')"; \
	"$$python" -m venv --clear $(VENV)

$(VENV)/.demo: $(VENV)/pyvenv.cfg pyproject.toml
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/pyvenv.cfg pyproject.toml
	$(PIP) --editable '.[dev]'
	@touch $(VENV)/.demo $@

$(VENV)/.bench: $(VENV)/pyvenv.cfg pyproject.toml
	$(PIP) --editable '.[bench]'
	@touch $@
