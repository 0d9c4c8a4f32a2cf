# What people who work on tidemark do again and again. None of it is needed to build or test it: see README.md.
GO      ?= go
LINTER  ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
FUZZTIME ?= 30s
ROUNDS  ?= 20
# What `make bench-scale` makes.
FILES   ?= 300000,1000000
# What `make bench` runs: ./... for every benchmark there is.
BENCH   ?= ./internal/stagebench
# What `make bench-peers` measures: data sets or trees, how much of them, which programs and steps (empty: all), where.
DATA    ?= source,tiny,mixed
SCALE   ?= 1
RUNS    ?= 3
PEER    ?=
STEP    ?=
WORK    ?=
MADE    ?=
UNLOCK  ?= passphrase

# Tests of these packages that take long and in which goroutines meet no more than elsewhere: without the detector only.
LONE = ^(TestFullCacheDisk|TestFullRestoreTarget|TestHealedCopyStaysTheOneThatCounts|TestEveryOperationOfPruneFails)$$

# Packages in which several goroutines meet.
SOAK = 10m
CONCURRENT = ./internal/backup/... ./internal/enginetest/... ./internal/hashcache/... ./internal/repo/... \
	./internal/report/... ./internal/restore/... ./internal/scan/... ./internal/store/...

.PHONY: build test race vet lint fuzz fuzz-list soak bench bench-peers bench-policy bench-scale bench-share bench-auto docs cover

build:                  ## bin/tidemark
	$(GO) build -trimpath -o bin/tidemark ./cmd/tidemark

test:                   ## everything, as the README says
	$(GO) test ./...

race:                   ## where goroutines meet, under the race detector (needs a C compiler)
	$(GO) test -race -short -skip '$(LONE)' -timeout 60m $(CONCURRENT)

vet:                    ## on the platforms we build for
	$(GO) vet ./...
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=darwin GOARCH=amd64 $(GO) vet ./...

lint:                   ## .golangci.yml; the linter is built by Go if it is not installed
	@if command -v golangci-lint >/dev/null; then golangci-lint run ./...; else $(GO) run $(LINTER) run ./...; fi

fuzz-list:              ## every fuzz target: package and name
	@grep -rHoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+\(' . | \
		sed -E 's|^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+)\(|\1 \2|' | sort

fuzz:                   ## every fuzz target, for FUZZTIME each
	@$(MAKE) -s fuzz-list | while read -r package target; do \
		echo "$$package $$target"; \
		$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$package" </dev/null || exit 1; \
	done

soak:                   ## the tests where goroutines meet, ROUNDS times in random order, under the race detector
	$(GO) test -race -count $(ROUNDS) -shuffle on -timeout 6h $(CONCURRENT)
	$(GO) test -run 'Crash|Memory' -timeout 2h ./internal/enginetest -soak $(SOAK)
	TIDEMARK_SMB_DEADTIME=1 $(GO) test -race -timeout 12h ./internal/sharetest -soak $(SOAK)

bench:                  ## every stage by itself: time, and what does not depend on the machine's mood
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH)

bench-peers:            ## tidemark beside other programs; PATH finds them, or PEER=name=program; as root with cold caches
	@mkdir -p bin
	$(GO) run ./internal/peerbench -data "$(DATA)" -scale $(SCALE) -rounds $(RUNS) -peer "$(PEER)" -step "$(STEP)" \
		-work "$(WORK)" -made "$(MADE)" -unlock $(UNLOCK) -json bin/bench-peers.json -markdown bin/bench-peers.md

bench-policy:           ## what giving way does to a foreground, and costs; ONLY=1,2 ...; as root, with fio
	@mkdir -p bin
	$(GO) run ./internal/policybench -only "$(ONLY)" -json bin/bench-policy.json

bench-scale:            ## time, memory and sizes against the number of files; FILES=300000,1000000 WORK=DIR; as root
	@mkdir -p bin
	$(GO) run ./internal/scalebench -files "$(FILES)" -work "$(WORK)" -json bin/bench-scale.json

bench-share:            ## a repository on a share, with a Samba of its own; ONLY=1,2 ...
	@mkdir -p bin
	$(GO) run ./internal/sharebench -only "$(ONLY)" -json bin/bench-share.json

bench-auto:             ## what a backup finds out by itself beside fixed numbers, where one thing is slow; ONLY=target,... ; as root
	@mkdir -p bin
	$(GO) run ./internal/tunebench -only "$(ONLY)" -runs $(RUNS) -json bin/bench-auto.json

docs:                   ## docs/cli and bin/man, from the commands
	$(GO) run ./cmd/tidemark man markdown docs/cli
	$(GO) run ./cmd/tidemark man roff bin/man

cover:                  ## bin/cover.html
	@mkdir -p bin
	$(GO) test -coverpkg ./... -coverprofile bin/cover.out ./...
	$(GO) tool cover -html bin/cover.out -o bin/cover.html
	$(GO) tool cover -func bin/cover.out | tail -n 1
