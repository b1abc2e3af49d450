# `make demo` and `make test` are all that a newcomer needs; each makes the environment first.

PYTHON ?= python3
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
EXPERIMENT ?= config/config.yaml
export PATH := $(BIN):$(PATH)
# Nothing of a run needs the hub's telemetry or a global matplotlib configuration.
export HF_HUB_DISABLE_TELEMETRY := 1

.PHONY: help environment gptq llama doctor demo lossless domains distillation interventions certificates losses retrace bench scale example test test-slow test-cluster test-gpu test-speculators lint format clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

environment: $(VENV)/installed  ## make the pinned environment in .venv

$(VENV)/installed: envs/requirements.lock envs/cluster.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r envs/requirements.lock
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-deps -r envs/cluster.lock
	@touch $@

gptq: $(VENV)/gptq  ## add what GPTQ models need (built from source: wants a C compiler)

$(VENV)/gptq: envs/gptq.lock $(VENV)/installed
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -r envs/gptq.lock
	@touch $@

llama: $(VENV)/llama  ## add llama.cpp for GGUF models (compiled in 6 minutes on two cores, kept)

# A wheel that is in the folder is installed as it is. It fits processors like the one it was compiled
# on; CMAKE_ARGS=-DGGML_NATIVE=OFF makes one for any, -DGGML_CUDA=on one for NVIDIA GPUs.
LLAMA_WHEELS ?= .cache/wheels

$(VENV)/llama: envs/llama_cpp.lock $(VENV)/installed
	@mkdir -p "$(LLAMA_WHEELS)"
	"$(BIN)/python" -m pip wheel --quiet --disable-pip-version-check --no-deps \
	  --find-links "$(LLAMA_WHEELS)" --wheel-dir "$(LLAMA_WHEELS)" -r envs/llama_cpp.lock
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-index \
	  --find-links "$(LLAMA_WHEELS)" -r envs/llama_cpp.lock
	@touch $@

demo: environment  ## run the laptop experiment and say where the report is
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT)

doctor: environment  ## what would stop an experiment, before its first job (EXPERIMENT=FILE)
	"$(BIN)/python" scripts/doctor.py --configfile $(EXPERIMENT)

lossless: environment  ## the lossless study: live decoding, timed (45 minutes on two idle cores)
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- lossless

domains: gptq  ## the domains study: token trees on a 4-bit target
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- domains

certificates: environment  ## the certificates study: KL certificates against real drafts, relaxed rules
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- certificates

distillation: environment  ## train a draft on the target's text and say what that gained (20 minutes)
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- distillation

interventions: environment  ## three adapters of that draft, compared (45 minutes)
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- interventions

losses: environment  ## drafters of whole blocks trained with several losses, compared (52 minutes)
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- losses

retrace: environment  ## a memory of rejected tokens on such a drafter, beside its control
	"$(BIN)/python" scripts/clear_stale_lock.py
	"$(BIN)/python" -m snakemake --cores all --configfile $(EXPERIMENT) -- retrace

BENCH_MODEL := results/laptop/models/smollm2-135m/model.json
# Texts of this domain do not end before their budget.
BENCH_PROMPTS := results/laptop/prompts/chat/0000.parquet

bench: environment  ## speed against transformers, size of runs and plans, to results/bench/bench.json
	"$(BIN)/python" -m snakemake --cores all --quiet rules -- $(BENCH_MODEL) $(BENCH_PROMPTS)
	"$(BIN)/python" scripts/bench.py --target $(BENCH_MODEL) --prompts $(BENCH_PROMPTS) \
	  --output results/bench/bench.json

scale: environment  ## time and memory of analysis and plans by size, to results/bench/scale.json
	"$(BIN)/python" scripts/scale.py --output results/bench/scale.json

example: demo  ## keep the small exhibits of a laptop run in results/example
	rm -rf results/example && mkdir -p results/example
	cd results/laptop/exhibits && cp -r position choice measures ../../example/
	cp results/laptop/scorecard.csv results/laptop/scorecard.md results/example/

test: environment  ## unit tests and one small workflow run
	"$(BIN)/python" -m pytest -n auto -m "not slow and not gpu and not cluster"

test-slow: environment  ## the tests that take minutes each
	"$(BIN)/python" -m pytest -m "slow and not gpu"

test-cluster: environment  ## a real one-node Slurm, started and stopped here (root and apt)
	"$(BIN)/python" -m pytest -m cluster -rs tests/cluster

test-speculators:  ## losses beside another implementation, in an environment of its own
	$(PYTHON) -m venv .venv-speculators
	.venv-speculators/bin/python -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb")); \
	  print(*extras["project"]["optional-dependencies"]["speculators"], sep="\n")' \
	  > .venv-speculators/requirements.txt
	.venv-speculators/bin/python -m pip install --quiet --disable-pip-version-check \
	  -r .venv-speculators/requirements.txt
	.venv-speculators/bin/python -c 'import speculators.losses.eager'
	.venv-speculators/bin/python -m pytest -rs tests/unit/test_losses_speculators.py

test-gpu: environment  ## what only a CUDA device can show, in 8 minutes, to results/gpu.json
	"$(BIN)/python" tests/gpu/check_gpu.py --output results/gpu.json

lint: environment  ## ruff, snakefmt and snakemake --lint
	"$(BIN)/python" -m ruff check .
	"$(BIN)/python" -m ruff format --check .
	"$(BIN)/python" -m snakefmt.snakefmt --check workflow
	"$(BIN)/python" -m snakemake --lint

format: environment  ## rewrite the layout of code and rules
	"$(BIN)/python" -m ruff check --fix .
	"$(BIN)/python" -m ruff format .
	"$(BIN)/python" -m snakefmt.snakefmt workflow

clean:  ## remove the environment (results stay)
	rm -rf $(VENV) .venv-speculators
