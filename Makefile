# Everything here needs only Go, git and make.

GO ?= go

# Compiling a control plane is most of a cold build. It takes a third less work
# without debug information and, where a lab spends no time to speak of, without
# inlining; `make build GOFLAGS=` makes programs for a cluster. Exported, so that
# programs, tests and linters share one build cache.
FULL = -dwarf=false
QUICK = -dwarf=false -l
GOFLAGS ?= '-gcflags=all=$(QUICK)' '-gcflags=std=$(FULL)' \
	'-gcflags=github.com/berth-scheduler/...=$(FULL)' \
	'-gcflags=k8s.io/kubernetes/pkg/scheduler/...=$(FULL)' \
	'-gcflags=k8s.io/apimachinery/...=$(FULL)' \
	'-gcflags=k8s.io/dynamic-resource-allocation/...=$(FULL)' \
	-ldflags=-w
export GOFLAGS

# The compiler collects less garbage: it lives for seconds.
BUILD = GOGC=800 $(GO) build

# The race detector needs a C compiler, which a bare machine does not have.
RACE ?= $(if $(shell command -v cc || command -v gcc || command -v clang),-race)

# Which tests `go test -run` picks in the end-to-end suite, and how.
E2E ?= .

.PHONY: build demo test test-long lint bench clean
.PHONY: bin/berth bin/berth-scheduler bin/berth-lab

build: bin/berth bin/berth-scheduler bin/berth-lab

# Kubernetes' parts say which version they are, as in a release.
KUBERNETES = v1.37.2
LDFLAGS = -w -X=k8s.io/component-base/version.gitVersion=$(KUBERNETES)

bin/berth bin/berth-scheduler bin/berth-lab:
	@echo "Building $@. The first time this compiles a control plane, which takes some minutes."
	$(BUILD) -ldflags='$(LDFLAGS)' -o $@ ./cmd/$(@F)

# One program, so that the first look does not wait for the others.
demo: bin/berth-lab
	bin/berth-lab demo

# The race detector comes second, with fewer cases of the properties. Of the
# programs, only the simulated machines are goroutines of ours side by side.
test: build
	$(GO) test ./device/... ./structured ./volume
	$(GO) test $(RACE) ./...
	cd cmd && $(GO) test ./... && $(GO) test $(RACE) ./internal/lab/machines
	cd tests && $(GO) test -count=1 -timeout=15m -run '$(E2E)' ./...

# The properties with many more and other cases, the end-to-end tests again and again, and
# storms and fault suites in full.
test-long: export BERTH_LONG = 1
test-long: build
	$(GO) test -timeout=12h ./device ./device/internal/assign ./structured ./volume ./internal/draws -args -rapid.checks=200000 -rapid.seed=0
	$(GO) test $(RACE) -timeout=60m ./device/... ./structured ./volume
	$(GO) test $(RACE) -count=20 ./internal/...
	$(GO) test $(RACE) -count=3 -timeout=60m ./plugin/...
	cd tests && $(GO) test -count=5 -timeout=60m -run '$(E2E)' ./...

# The linter is pinned in a module of its own, away from everybody's imports.
# govet and staticcheck look into every dependency, which takes minutes and
# gigabytes where k8s.io/kubernetes is one; there, `go test` vets what it builds.
lint: FAST = --disable=govet,staticcheck
lint:
	cd tools && GOWORK=off $(BUILD) -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	bin/golangci-lint run ./...
	cd cmd && ../bin/golangci-lint run $(FAST) ./...
	cd tests && ../bin/golangci-lint run $(FAST) ./...

# Ours and upstream's in one process, both compiled as in a release;
# BENCH="-run '^device/'" measures some cases only.
bench: export GOFLAGS =
bench:
	cd tests && $(GO) run ./bench -out ../bench-results.json $(BENCH)

clean:
	rm -rf bin
