# Two commands on a fresh machine: `make demo` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Machines with a GPU have an interpreter with torch, and perhaps no network: `cuda` needs no `setup`.
CUDA_PYTHON = $(if $(wildcard $(BIN)/python),$(BIN)/python,python3)
# Examples with Lightning, Hugging Face and torchvision: their packages stay out of the tested environment.
EXAMPLES := .venv-examples
ARGS ?=
# Some fifty processes of the tests share what one of them has compiled, even where that is switched off otherwise.
TEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# Live tests wait more than they compute: half as many test processes again as there are processors.
WORKERS := $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n + (n + 1) / 2)))

.DEFAULT_GOAL := help
.PHONY: help setup hooks demo test quick check unit live slow examples interop browser compared realistic fresh brokers search mutants mutants-changed unchanged chaos chaos-ci soak bench cuda cuda-page cuda-kit cuda-rehearsal versions release docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(STAMP)  ## make the virtual environment and install the tested versions

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[learn,embedded-broker,plots,dp,tables,monitoring,tensorboard,crypten,dev]'
	# Its declared dependencies do not install (docs/adr/0023); what it needs is in the extra.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt crypten
	@touch $@

hooks: setup  ## install the hooks of git: linters, generated pages, subject lines; mypy before a push
	$(BIN)/pre-commit install

demo: setup  ## the main job: 12 parties, a server and a broker train on real data, one drops out, one lies
	$(BIN)/securefl run quickstart --broker embedded $(ARGS)

test: setup  ## linters, types, layers, and the fast tier of the tests beside them: under five minutes on two cores
	$(MAKE) --no-print-directory -j 2 check unit

check: setup  ## ruff, mypy --strict, wings and exports, import contracts, the generated pages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/layout.py
	$(BIN)/python tools/reference.py --check
	$(BIN)/python tools/language.py --check
	$(BIN)/mypy
	MYPYPATH=. $(BIN)/mypy --explicit-package-bases examples
	$(BIN)/lint-imports --no-logo

unit: setup  ## the fast tier alone: all but what `live`, `slow` and the other targets below run
	$(TEST) -n $(WORKERS) --dist worksteal $(ARGS)

# The pure core and what it rests on; training, processes, experiments and audits are left to `make test`, and so is mypy.
QUICK := $(addprefix tests/unit/,clustering crypto encoding kernel masking messages planning robust round scenario \
	task_groups transcript transport weighting wire) tests/vectors --ignore=tests/vectors/test_verdicts.py

quick: setup  ## under a minute: linters, layout, and the tests of the pure core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/layout.py
	$(TEST) $(QUICK) -n $(WORKERS) --dist worksteal $(ARGS)

examples: setup $(EXAMPLES)/.installed .venv-flower/.installed  ## run what is in examples/; some in environments of their own
	$(TEST) -v -m "not paper" tests/live/test_examples.py tests/live/test_examples_apart.py $(ARGS)
	$(TEST) -v -m interop tests/interop/test_flower.py -k test_accuracies $(ARGS)

$(EXAMPLES)/.installed: pyproject.toml constraints.txt examples/requirements.txt
	$(PYTHON) -m venv $(EXAMPLES)
	$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-r examples/requirements.txt -e '.[learn,embedded-broker,images]'
	# Apart, as transformers imports it where it finds it, and beside a torch for CPUs PyPI's wheel fails (examples/resnet).
	$(EXAMPLES)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target $(EXAMPLES)/vision torchvision==0.28.0
	@touch $@

interop: setup .venv-flower/.installed .venv-nvflare/.installed .venv-docs/.installed  ## Flower apps, an NVFlare script, the site
	$(TEST) -v -m interop tests/interop $(ARGS)

browser: setup .venv-browser/.installed .venv-docs/.installed  ## reports and the site in Chromium; ARGS=--write renews references
	PYTHONDONTWRITEBYTECODE= .venv-browser/bin/python -m pytest --confcutdir=tests/browser -p no:cacheprovider -m browser tests/browser -q $(ARGS)

compared: setup .venv-byzfl/.installed .venv-flower/.installed .venv-pfl/.installed  ## one example in four frameworks, docs/frameworks.md
	$(TEST) -v -m interop tests/live/test_compared.py $(ARGS)

# Their dependencies and ours do not go together: each has an environment of its own, of the tested versions.
.venv-byzfl/.installed: PACKAGES := byzfl scikit-learn
.venv-flower/.installed: PACKAGES := 'flwr[simulation]' torch scikit-learn
.venv-nvflare/.installed: PACKAGES := nvflare torch scikit-learn
.venv-pfl/.installed: PACKAGES := pfl torch scikit-learn
.venv-docs/.installed: PACKAGES := mkdocs mkdocs-material 'mkdocstrings[python]'
.venv-browser/.installed: PACKAGES := playwright axe-playwright-python pytest pillow numpy
.venv-release/.installed: PACKAGES := build setuptools cyclonedx-bom uv pipx
.venv-%/.installed: interop/%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check -c interop/$*.txt $(PACKAGES)
	@touch $@

live: setup  ## the other live tests: real processes over real brokers
	$(TEST) -m "live and not smoke and not slow and not paper and not interop and not browser and not brokers and not realistic" \
		-n $(WORKERS) --dist worksteal $(ARGS)

slow: setup  ## products (message x kind), large sizes, long simulations, many samples, properties with all their examples; nightly
	$(TEST) -m "(slow or hypothesis and not live) and not paper" --hypothesis-profile whole -n $(WORKERS) --dist worksteal $(ARGS)

realistic: setup  ## two federations of 1.2 million parameters with restarts, and their files in plain torch, minutes
	$(TEST) -v -m realistic tests/realistic $(ARGS)

fresh: setup  ## results of papers, computed again in part: a twelfth of them, chosen by the commit's hash
	$(BIN)/python tools/fresh.py --part HEAD $(ARGS)

brokers: setup  ## brokers lost in every step of a run, hours; goes on where it was stopped; writes docs/results/brokers.md
	$(TEST) -v -m brokers tests/live $(ARGS)
	$(BIN)/python -m tests.live.outage_matrix

search: setup  ## property tests and fuzzing with fresh examples, other ones each time
	$(TEST) -m hypothesis --hypothesis-profile search -n auto --dist worksteal $(ARGS)

mutants: setup  ## break what protects the parties, line by line: a test must notice each; writes docs/results/mutants.md
	$(BIN)/python tools/mutants.py --write docs/results/mutants.md $(ARGS)

mutants-changed: setup  ## the same for what differs from BASE (origin/main unless given)
	$(BIN)/python tools/mutants.py --changed $(BASE) $(ARGS)

unchanged: setup  ## models, frames and verdicts are the bits that are committed
	$(BIN)/python tools/unchanged.py $(ARGS)
	$(TEST) tests/vectors -m "not live" -n $(WORKERS)

versions:  ## the tests that need no torch on Python 3.12 and 3.13, in environments of their own
	$(PYTHON) tools/versions.py --workers $(WORKERS) $(ARGS)

chaos: setup  ## seeded faults against federations of processes; resumable: ARGS="--runs 200 --seed 1"
	$(BIN)/python -m tests.chaos $(ARGS)

chaos-ci: setup  ## the same, one fault of each kind at a time, in under two minutes
	$(BIN)/python -m tests.chaos --each 1 $(ARGS)

soak: setup  ## a thousand rounds of processes, with and without kills: memory, files and time a round
	$(BIN)/python -m tests.soak --kill-server-every 0 50 $(ARGS)

cuda:  ## GPU: contract suites and measurements within a time limit; resumable: ARGS="--limit 480", ARGS="--device cpu"
	$(CUDA_PYTHON) -m tools.cuda $(ARGS)

cuda-page:  ## add results of `make cuda` to docs/results/cuda.jsonl, and write docs/results/cuda.md: ARGS=.cuda/cuda.jsonl
	$(CUDA_PYTHON) -m tools.cuda.page $(ARGS)

bench: setup  ## speed and size of the secure sum against the measured floor
	$(BIN)/securefl bench secagg $(ARGS)

# Wheels for a GPU machine without a network, and data: that machine has torch, and no index.
cuda-kit: .venv-cuda/.installed  ## the wheels and data that a GPU machine without a network lacks, in .cuda-kit/
	.venv-cuda/bin/python -m tools.cuda.kit $(ARGS)

cuda-rehearsal: cuda-kit  ## install the kit offline beside what that machine has, without torch, and test there
	.venv-cuda/bin/python -m tools.cuda.rehearse

.venv-cuda/.installed: constraints.txt
	$(PYTHON) -m venv .venv-cuda
	.venv-cuda/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt packaging
	@touch $@

docs: setup .venv-docs/.installed  ## the documentation as a site in site/: links checked, nothing from a network
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/python -m mkdocs build --strict $(ARGS)
	$(BIN)/python -m tools.documentation.offline site

# The key stays with its maintainer: make release ARGS="--key FILE --signer NAME".
release: setup .venv-release/.installed  ## wheel, sdist, SBOM and digests in dist/, checked outside the checkout; docs/release.md
	$(BIN)/python -m tools.release $(ARGS)

clean:  ## remove what setup and tools made
	rm -rf $(VENV) .venv-* .cuda .cuda-kit* build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
