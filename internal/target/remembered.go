package target

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// rememberedFile is in the cache folder of a repository.
const rememberedFile = "target.json"

// probed is the key of the mount that was probed last.
const probed = "mount"

// ProbeOnce probes the folder path of a repository, unless the same file system was mounted there at the last probe:
// then the report is nil. cache is the cache folder of the repository, pass the I/O gate of path. If the result cannot
// be remembered, ProbeOnce returns the report with an error.
func ProbeOnce(ctx context.Context, path, cache string, pass *iopolicy.Pass, devices *device.Finder) (*Report, error) {
	now, err := mountOf(localfs.IOContext{Ctx: ctx, Pass: pass}, path, devices)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(cache, rememberedFile)
	if readRemembered(file) == now {
		return nil, nil
	}
	report, err := Run(ctx, path, Options{Pass: pass})
	if err != nil {
		return nil, err
	}
	if err := writeRemembered(file, report.Identity); err != nil {
		return report, fmt.Errorf("remember the target: %w", err)
	}
	return report, nil
}

// mountOf identifies what is mounted at path.
func mountOf(door localfs.IOContext, path string, devices *device.Finder) (Identity, error) {
	dir, err := door.OpenDir(path)
	if err != nil {
		return Identity{}, err
	}
	defer dir.Release()
	info, err := devices.At(dir)
	if err != nil {
		return Identity{}, err
	}
	return IdentityOf(dir, info)
}

// readRemembered returns the zero Identity for a file that is missing or damaged.
func readRemembered(file string) Identity {
	var all map[string]Identity
	if raw, err := os.ReadFile(file); err != nil || json.Unmarshal(raw, &all) != nil {
		return Identity{}
	}
	return all[probed]
}

// writeRemembered replaces the file. Two processes at the same time may damage it, after which the target is probed
// once more.
func writeRemembered(file string, now Identity) error {
	raw, err := json.Marshal(map[string]Identity{probed: now})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o600)
}
