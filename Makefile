# Copyright The Leasehold Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Tools have versions of their own, pinned beside those of the project.
TOOL := go tool -modfile=hack/tools/go.mod
CONTROLLER_GEN := $(TOOL) controller-gen
# golangci-lint with the linter for Kubernetes APIs built in.
LINT := $(TOOL) golangci-lint-kube-api-linter

# Packages to test, go test's flags, and a file to which results are added (see
# hack/testsummary).
PACKAGES ?= $(shell go list ./... | grep -vE '/test/(e2e|bench|demo)(/|$$)')
TESTFLAGS ?=
RESULTS ?=

# $(call gotest,flags,packages)
gotest = go test $(1) $(TESTFLAGS) $(if $(RESULTS),-json) $(2) \
	$(if $(RESULTS),| go run ./hack/testsummary --add "$(RESULTS)")

include $(wildcard make/*.mk)

##@ Development

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: generate
generate: ## Generate deep copies and apply configurations
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt \
		applyconfiguration:headerFile=hack/boilerplate.go.txt paths=./api/...

.PHONY: manifests
manifests: ## Generate the definition and the manager's role
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true,headerFile=hack/boilerplate.yaml.txt \
		paths=./api/... output:crd:dir=config/crd/bases
	go run ./hack/crdgen config/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=leasehold-manager,headerFile=hack/boilerplate.yaml.txt \
		paths=./controllers/... output:rbac:dir=config/rbac

.PHONY: chart
chart: ## Generate the chart's templates from config/
	go run ./hack/chartgen

.PHONY: fmt
fmt: ## Format Go code
	$(LINT) fmt

##@ Checks

.PHONY: lint
lint: ## Lint Go code, and hold the lines between the layers
	$(LINT) run --allow-parallel-runners

.PHONY: lint-api
lint-api: ## Lint the API by the conventions of Kubernetes
	$(LINT) run --allow-parallel-runners --config .golangci-kal.yaml ./api/v1alpha1

.PHONY: test
test: ## Run all tests but end to end; builds an API server the first time
	hack/install-stores
	assets="$$(go run ./test/cluster/cmd/cluster assets)"; export KUBEBUILDER_ASSETS="$$assets"; \
	$(call gotest,-timeout 20m,$(PACKAGES))

.PHONY: test-race
test-race: ## Run the same tests with the race detector
	hack/install-stores
	assets="$$(go run ./test/cluster/cmd/cluster assets)"; export KUBEBUILDER_ASSETS="$$assets"; \
	$(call gotest,-race -timeout 40m,$(PACKAGES))

.PHONY: test-e2e
test-e2e: ## Run the tests on a cluster with nodes (root on Linux)
	$(call gotest,-count=1 -timeout 60m,./test/e2e/...)

.PHONY: verify
verify: ## Check that nothing generated is old, that all is linted, and that it builds
	$(MAKE) generate manifests chart
	$(MAKE) --jobs 2 --output-sync=target lint lint-api verify-build verify-modules
	@changed="$$(git status --porcelain -- api config charts)"; \
	if [[ -n "$$changed" ]]; then \
		git diff -- api config charts; \
		echo "Commit what \"make generate manifests chart\" changes:"; echo "$$changed"; exit 1; \
	fi
	git diff --exit-code

.PHONY: verify-build
verify-build:
	go build ./...
	go vet ./...

.PHONY: verify-modules
verify-modules:
	go mod verify

##@ Use

.PHONY: build
build: ## Build the programs into bin/
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/...

.PHONY: docker-build
docker-build: ## Build the images of the manager and the agent
	docker build --target manager --tag leasehold.dev/manager:dev .
	docker build --target agent --tag leasehold.dev/agent:dev .

.PHONY: demo
demo: ## Show on a cluster of its own what a paused holder does, with tokens and without
	go run ./test/demo
