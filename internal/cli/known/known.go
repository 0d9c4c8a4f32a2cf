// Package known remembers on this machine how the folder of a repository was mounted when it was last probed, so that a
// target is probed when it is new and not before each backup. It refuses to know what follows from a verdict.
package known

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/target"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// fileName is the memory in the cache folder of a repository.
const fileName = "target.json"

// mounted is what is remembered.
type mounted struct {
	Mount   target.Identity `json:"mount"`
	Verdict target.Verdict  `json:"verdict"`
}

// Probe probes the folder path of a repository unless it is mounted as the memory in the folder cache says: then the
// report is nil. pass is the way to the device of path, devices what the run knows of its devices. A report that could not
// be remembered comes with an error.
func Probe(ctx context.Context, path, cache string, pass *iopolicy.Pass, devices *device.Finder) (*target.Report, error) {
	now, err := identity(localfs.Door{Ctx: ctx, Pass: pass}, path, devices)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(cache, fileName)
	if was, err := recall(file); err == nil && was.Mount == now {
		return nil, nil
	}
	report, err := target.Run(ctx, path, target.Options{Pass: pass})
	if err != nil {
		return nil, err
	}
	if err := remember(file, mounted{report.Identity, report.Verdict()}); err != nil {
		return report, fmt.Errorf("remember the target: %w", err)
	}
	return report, nil
}

// identity looks at what is mounted.
func identity(door localfs.Door, path string, devices *device.Finder) (target.Identity, error) {
	dir, err := door.OpenDir(path)
	if err != nil {
		return target.Identity{}, err
	}
	defer dir.Release()
	info, err := devices.At(dir)
	if err != nil {
		return target.Identity{}, err
	}
	return target.IdentityOf(dir, info)
}

func recall(file string) (was mounted, err error) {
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &was)
	}
	return was, err
}

// remember replaces the file at one moment: several programs may do so.
func remember(file string, now mounted) error {
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
