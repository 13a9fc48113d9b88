# The conformance suite of package fencing on every store, and its table.

# Contended operations in each adapter's suite.
FENCING_OPS ?= 10000

.PHONY: test-fencing
test-fencing: ## Try every fencing adapter on its real store, and print a table
	hack/install-stores
	results="$$(mktemp)"; trap 'rm -f "$$results"' EXIT; status=0; \
	FENCETEST_OPS="$(FENCING_OPS)" FENCETEST_RESULTS="$$results" \
		go test -count=1 -timeout 40m $(TESTFLAGS) ./fencing/... || status=$$?; \
	go run ./fencing/fencetest/cmd/fencetable "$$results" && exit "$$status"
