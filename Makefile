# Two commands matter: `make` runs the ladder, `make test` the tests. Both set up .venv themselves.
#
# All paths are relative, so that the folder may have any name.
PYTHON ?=
FUZZ ?= 20
BROWSER ?=
PY := .venv/bin/python

# Settings of the caller that would leak into the environment made here.
unexport PYTHONPATH PYTHONHOME MPLBACKEND

.DEFAULT_GOAL := all
.PHONY: all setup notebooks ladder test soak fuzz sanitize lint lab slides record browser clean help

all: notebooks ladder  ## set up, run every notebook into build/notebooks, draw build/ladder.png
	@echo 'Made: build/notebooks, every notebook as it ran here, and build/ladder.png, the ladder.'
	@echo 'Next: `make lab` opens the first notebook; `make help` lists what else there is.'

setup:  ## make .venv from requirements.lock (PYTHON=... chooses the interpreter)
	@sh scripts/setup.sh '$(PYTHON)'

notebooks: setup  ## run every notebook, results in build/notebooks
	$(PY) -m helpers run --output-dir build/notebooks

ladder: notebooks  ## draw build/ladder.png
	MPLBACKEND=Agg $(PY) -m helpers plot --output build/ladder.png

test: setup  ## run the tests; needs no GPU
	MPLBACKEND=Agg $(PY) -m pytest -n auto --dist loadfile

soak: setup  ## run kernels and planted bugs under many random schedules, all mutants, all kinds of pictures (half an hour)
	$(PY) -m helpers.soak
	$(PY) -m helpers.mutants
	MPLBACKEND=Agg $(PY) -m pytest -m soak --soak

fuzz: setup  ## damaged files, random command lines, shapes and defines, FUZZ=20 times as many as in `make test` (20 minutes)
	MPLBACKEND=Agg $(PY) -m pytest tests/fuzz --fuzz $(FUZZ)

sanitize: setup  ## run the emulator's tests with its C++ under AddressSanitizer and UBSan (ten minutes)
	@sh scripts/sanitize.sh

lint: setup  ## check the style of the Python code and of the notebooks
	$(PY) -m ruff check .

lab: setup  ## open JupyterLab on the first notebook
	$(PY) -m jupyter lab $$([ "$$(id -u)" != 0 ] || echo --allow-root) --ServerApp.root_dir="$(CURDIR)" notebooks/01_coalescing.ipynb

slides: setup  ## slides of all notebooks in build/slides, each a file that needs no network
	$(PY) -m helpers slides

record: setup  ## measure the whole ladder again, in twenty minutes (needs a Hopper GPU)
	$(PY) -m helpers.record
	$(PY) -m helpers.held_clock
	$(PY) -m helpers.input_speeds

browser: setup  ## run the notebooks in JupyterLab in headless Chromium (needs chromium, chromium-driver; 10 minutes)
	$(PY) -m pytest tests/browser $(BROWSER)

clean:  ## remove build/ and .venv
	rm -rf build .venv

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## */\1\t/' | while IFS="$$(printf '\t')" read -r target text; do printf '    make %-10s %s\n' "$$target" "$$text"; done
