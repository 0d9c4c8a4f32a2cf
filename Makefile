# What people who work on tidemark do again and again. None of it is needed to build or test it: see README.md.
GO      ?= go
LINTER  ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER ?= github.com/goreleaser/goreleaser/v2@v2.15.1
NFPM    ?= github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
# How these two are run: with another program instead, make release goreleaser=goreleaser.
goreleaser = $(GO) run $(GORELEASER)
nfpm    = $(GO) run $(NFPM)
FUZZTIME ?= 30s
ROUNDS  ?= 20
# What `make bench-scale` makes.
FILES   ?= 300000,1000000
# What `make bench` runs: ./... for every benchmark there is.
BENCH   ?= ./internal/bench/stages
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
LONE = ^(TestFullRestoreTarget|TestEveryOperationOfPruneFails|TestPruneKeepsWhatAHostileClientClaims|TestManyNames|\
TestTreesDoNotDependOnHowFilesAreRead|TestUnreadAttributesAreReadAgain|TestCopy|TestCrashWhileCopying|TestStandardInput|\
TestIncrementalBackupFetchesNoTrees|TestWritesThroughAMappingAreNotMissed|TestRestoreOfBackupIsTheIdentity|\
TestAnalyzeIsWhatANaiveWalkCounts|TestForgetFreesWhatAnalyzeSays|TestContractOverSSH|TestOnlyNewSnapshotsAreCopied)$$

empty =
space = $(empty) $(empty)

# Packages in which several goroutines meet.
SOAK = 10m
CONCURRENT = ./internal/backup/... ./internal/repo/... ./internal/report/... ./internal/restore/... ./internal/store/... \
	./internal/view/... ./internal/webdav/... \
	$(addprefix ./internal/test/e2e/,change/... prune/... restore/... roundtrip/... throttle/...)

# What a release records of its build: the same bytes for the same commit and the same Go.
VERSION ?= $(shell .ci/packaging/version)
COMMIT  ?= $(shell git rev-parse HEAD)
DATE    ?= $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
STAMP   = github.com/tidemark-backup/tidemark/internal/buildinfo
LDFLAGS = -s -w -buildid= -X $(STAMP).version=$(VERSION) -X $(STAMP).commit=$(COMMIT) -X $(STAMP).date=$(DATE)
# Of `make packages`.
ARCH    ?= $(shell $(GO) env GOARCH)
OUT     ?= bin/packages

.PHONY: build release share package packages reproduce test race vet lint fuzz fuzz-list soak bench bench-peers bench-policy bench-scale bench-share bench-picture bench-curve bench-trace screens screens-picture systemd docs cover

build:                  ## bin/tidemark
	$(GO) build -trimpath -o bin/tidemark ./cmd/tidemark

# A commit with a tag v1.2.3 gives that version, another one a development version. The first run compiles goreleaser,
# which takes minutes. Nothing is published.
release: export VERSION := $(VERSION)
release: export COMMIT := $(COMMIT)
release: export DATE := $(DATE)
release: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)
release: export LDFLAGS := $(LDFLAGS)
release:                ## dist: archives, deb, rpm, checksums and the Homebrew formula
	$(goreleaser) release --clean --skip=publish $(if $(findstring -dev.,$(VERSION)),--snapshot)

share:                  ## bin/share: man pages and completions, for archives and packages
	@rm -rf bin/share && mkdir -p bin/share/man1 bin/share/completions
	GOOS= GOARCH= CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -o bin/share/tidemark ./cmd/tidemark
	SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) bin/share/tidemark man roff bin/share/man
	for shell in bash zsh fish; do bin/share/tidemark completion $$shell >bin/share/completions/tidemark.$$shell || exit; done
	for page in bin/share/man/*.1; do gzip -9nc "$$page" >"bin/share/man1/$${page##*/}.gz" || exit; done

package:                ## OUT/*.deb and OUT/*.rpm of the program BINARY for linux/ARCH; needs bin/share
	@mkdir -p $(OUT)
	for format in deb rpm; do GOOS= GOARCH= VERSION=$(VERSION) ARCH=$(ARCH) BINARY="$(BINARY)" \
		SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(nfpm) package -f .ci/packaging/nfpm.yaml -p $$format -t $(OUT)/ || exit; \
	done

packages: share         ## OUT/*.deb and OUT/*.rpm for linux/ARCH, without goreleaser
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) $(GO) build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o $(OUT)/tidemark \
		./cmd/tidemark
	$(MAKE) -s package BINARY=$(OUT)/tidemark

reproduce:              ## two releases of this commit in two clones, compared byte by byte
	.ci/packaging/reproduce $(GORELEASER) $(NFPM)

test:                   ## everything, as the README says
	$(GO) test ./...

race:                   ## where goroutines meet, under the race detector (needs a C compiler)
	$(GO) test -race -short -skip '$(subst $(space),,$(LONE))' -timeout 60m $(CONCURRENT)

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
	$(GO) test -run 'Crash|Memory' -timeout 2h ./internal/test/e2e/... -soak $(SOAK)
	TIDEMARK_SMB_DEADTIME=1 $(GO) test -race -timeout 12h ./internal/test/share -soak $(SOAK)

bench:                  ## each stage by itself: time, allocations and deterministic counts
	$(GO) test -run '^$$' -bench . -benchmem $(BENCH)

# Needs root for cold caches. Finds other programs in PATH, or by PEER=name=program.
bench-peers:            ## tidemark beside other backup programs
	@mkdir -p bin
	$(GO) run ./cmd/tidemark-bench peers -data "$(DATA)" -scale $(SCALE) -rounds $(RUNS) -peer "$(PEER)" -step "$(STEP)" \
		-work "$(WORK)" -made "$(MADE)" -unlock $(UNLOCK) -json bin/bench-peers.json -markdown bin/bench-peers.md

bench-policy:           ## a foreground and a backup beside each other; PARTS=cost,turns,...; needs root and fio
	@mkdir -p bin
	$(GO) run ./cmd/tidemark-bench policy -parts "$(PARTS)" -json bin/bench-policy.json

bench-scale:            ## time, memory and sizes against the number of files; FILES=300000,1000000 WORK=DIR
	@mkdir -p bin
	$(GO) run ./cmd/tidemark-bench scale -files "$(FILES)" -work "$(WORK)" -json bin/bench-scale.json

bench-share:            ## a repository on a share, with a Samba of its own; PARTS=packs,line,...
	@mkdir -p bin
	$(GO) run ./cmd/tidemark-bench share -only "$(PARTS)" -json bin/bench-share.json

bench-picture:          ## docs/pictures/*.svg, drawn from what was recorded beside them
	$(GO) run ./cmd/tidemark-bench picture

bench-curve:            ## docs/pictures/curve.svg: what others keep against the speed; needs root, fio, restic, an hour
	@mkdir -p bin
	$(GO) run ./cmd/tidemark-bench policy -parts curve -disk real -bound 15s -code 1100 -json bin/bench-curve.json \
		-pictures docs/pictures

bench-trace:            ## docs/pictures/trace.svg: slot grants beside programs that change; needs root and fio
	$(GO) run ./cmd/tidemark-bench policy -parts mixed -disk real -code 3300 -code-files 240000 -pictures docs/pictures

screens:                ## what a person sees in a terminal, captured and tested: bin/screens; needs tmux and a quiet machine
	TIDEMARK_SCREENS=$(CURDIR)/bin/screens $(GO) test -count 1 -v ./internal/test/screens

screens-picture:        ## docs/screens.svg: some of these screens; needs tmux
	TIDEMARK_PICTURE=$(CURDIR)/docs/screens.svg $(GO) test -count 1 -run TestPicture ./internal/test/screens

systemd:                ## the service under a real systemd, in namespaces; needs root and debootstrap
	.ci/systemd

docs:                   ## docs/cli and bin/man, from the commands; the tables of docs/json.md; docs/packages.md
	$(GO) test ./internal/cli/output -run TestTablesAreCurrent -update
	$(GO) test ./internal/test/arch -run TestPackagesPageIsCurrent -update
	$(GO) test ./internal/options -run TestReferenceIsCurrent -update
	$(GO) test ./internal/cli -run TestPagesOfCommandsAreCurrent -update
	$(GO) run ./cmd/tidemark man roff bin/man

cover:                  ## bin/cover.html
	@mkdir -p bin
	$(GO) test -coverpkg ./... -coverprofile bin/cover.out ./...
	$(GO) tool cover -html bin/cover.out -o bin/cover.html
	$(GO) tool cover -func bin/cover.out | tail -n 1
