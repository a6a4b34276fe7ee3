# Harborgate. `make` lists the targets. All that they need is Go and, on Linux,
# root or a Docker Engine that answers; see scripts/engine.sh.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

FUZZTIME ?= 20s
PACKAGES ?= ./...
# LONGEST is what the tests of a package may take.
LONGEST  ?= 25m

# The programs are static. Sandboxes of both architectures need their companion,
# whatever this host is.
go_build := CGO_ENABLED=0 go build -trimpath -ldflags '-s -w'
inside   := $(addprefix bin/harbor-inside-linux-,amd64 arm64)

##@ Use

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: bin/harbor $(inside) bin/harbor-sim ## Build harbor, its companions and its simulators into bin/

.PHONY: demo
demo: build ## Run every example task with its own solution and check the outcomes
	@scripts/demo.sh

##@ Check

.PHONY: demo-agents
demo-agents: build ## Let Claude Code and Codex finish a task against a mock model
	@scripts/demo-agents.sh

.PHONY: test
test: build ## Format, vet, lint, and all tests with the race detector (at most 30 minutes)
	@scripts/engine.sh
	@scripts/base-image.sh
	@scripts/systemd.sh
	@scripts/npm.sh
	@$(MAKE) fmt-check vet lint race fuzz-proxy

.PHONY: test-full
test-full: export HARBOR_TEST_FULL = 1
test-full: export LONGEST = 40m
test-full: test ## The same with slow tests, fuzzing, an old engine, a fresh machine and Harbor itself (at most an hour)
	@scripts/demo-agents.sh
	@scripts/fresh-machine.sh
	@scripts/harbor-peer.sh
	@$(MAKE) fuzz
	@scripts/old-engine.sh bash -c 'go test -race -timeout 20m -count 1 ./providers/docker/... && scripts/demo.sh'

.PHONY: race
race: build ## Run the tests of PACKAGES with the race detector
	go test -race -timeout $(LONGEST) $(PACKAGES)

.PHONY: vet
vet: go ## Run go vet
	go vet ./...

.PHONY: lint
lint: go ## Run the linters of .golangci.yaml
	@scripts/tools.sh golangci-lint
	.tools/bin/golangci-lint run --timeout 15m

.PHONY: fmt-check
fmt-check: go
	@unformatted=$$(gofmt -l .); \
	[[ -z $$unformatted ]] || { echo "run 'make fmt': $$unformatted" >&2; exit 1; }

.PHONY: fuzz
fuzz: go ## Fuzz every target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: fuzz-proxy
fuzz-proxy: export FUZZTIME = 30s
fuzz-proxy: go ## Fuzz what reads the bytes of hostile clients of the auth proxy, half a minute each
	@scripts/fuzz.sh authproxy

.PHONY: bench
bench: build ## Measure against the goals; fails when one is missed
	@scripts/engine.sh
	@scripts/base-image.sh
	go run ./internal/bench

.PHONY: bench-proxy
bench-proxy: build ## Measure the auth proxy beside nginx; fails when a goal is missed
	@scripts/engine.sh
	@scripts/base-image.sh
	@nginx=$$(scripts/nginx.sh); CGO_ENABLED=0 go run ./internal/bench/proxy -nginx "$$nginx"

.PHONY: soak
soak: build ## Run many trials through faults and kills and look for leaks (HARBOR_SOAK_SEED repeats one)
	HARBOR_SOAK=1 go test -timeout 0 -count 1 ./internal/shares ./scheduler ./providers/fake/plane
	HARBOR_SOAK=1 go test -timeout 0 -count 1 -run 'Soak|Kill' -v ./e2e
	FUZZTIME=10m scripts/fuzz.sh authproxy

##@ Work

.PHONY: fmt
fmt: go ## Format the code
	gofmt -w .

.PHONY: golden
golden: build ## Rewrite golden files from what the code does now
	HARBOR_UPDATE_GOLDEN=1 go test ./...

.PHONY: install-tools
install-tools: go ## Build the pinned tools into .tools/
	@scripts/tools.sh golangci-lint

.PHONY: clean
clean: ## Remove what was built here
	rm -rf bin .tools jobs trials-out

# Go decides by itself whether anything changed.
.PHONY: FORCE
FORCE:

bin/harbor: FORCE go
	@$(go_build) -o $@ ./cmd/harbor

bin/harbor-sim: FORCE go
	@$(go_build) -o $@ ./cmd/harbor-sim

bin/harbor-inside-linux-%: FORCE go
	@GOOS=linux GOARCH=$* $(go_build) -o $@ ./cmd/harbor-inside

.PHONY: go
go:
	@command -v go >/dev/null || { echo "go is not in PATH: install Go $$(sed -n 's/^go //p' go.mod) or later from https://go.dev/dl" >&2; exit 1; }
