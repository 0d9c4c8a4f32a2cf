package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// rememberedFile is in the cache folder of a repository.
const rememberedFile = "target.json"

// remembered is the mount that was probed last.
type remembered struct {
	Mount Identity `json:"mount"`
}

// ProbeOnce probes the folder path of a repository, unless the same file system was mounted there at the last probe:
// then the report is nil. cache is the cache folder of the repository, pass the I/O gate of path. If the result cannot
// be remembered, ProbeOnce returns the report with an error.
func ProbeOnce(ctx context.Context, path, cache string, pass *iopolicy.Pass, devices *device.Finder) (*Report, error) {
	now, err := mountOf(localfs.IOContext{Ctx: ctx, Pass: pass}, path, devices)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(cache, rememberedFile)
	if was, err := readRemembered(file); err == nil && was.Mount == now {
		return nil, nil
	}
	report, err := Run(ctx, path, Options{Pass: pass})
	if err != nil {
		return nil, err
	}
	if err := writeRemembered(file, remembered{report.Identity}); err != nil {
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

func readRemembered(file string) (was remembered, err error) {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	return was, err
}

// writeRemembered replaces the file by a rename, since several processes may write it at the same time.
func writeRemembered(file string, now remembered) error {
	raw, err := json.Marshal(now)
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "target-*.tmp")
	if err != nil {
		return err
	}
	_, err = temp.Write(raw)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}
