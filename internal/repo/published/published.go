// Package published records on this machine which snapshots it has published to a repository, which detects a snapshot
// that disappears without being forgotten, and keeps a copy of each, with which a damaged one is put back. The record
// is one text file in the cache folder, with a line of ID and time for each snapshot; the copies are sealed files in a
// folder beside it. Without them no disappearance is detected, nothing is put back, and no data is lost.
package published

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

const (
	fileName = "published"
	copies   = "snapshots"
	// largestCopy bounds what is read of a copy. Most have 1 to 2 KiB.
	largestCopy = 16 << 20
)

// Snapshots maps each snapshot to the time of its publication.
type Snapshots map[format.ID]time.Time

// Read returns the record in the folder, an empty one if there is none. Lines that were cut off by a crash are skipped.
func Read(folder string) (Snapshots, error) {
	f, err := os.OpenFile(filepath.Join(folder, fileName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshots{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of published snapshots: %w", err)
	}
	defer f.Close()
	return parse(f)
}

func parse(f io.Reader) (Snapshots, error) {
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("read the record of published snapshots: %w", err)
	}
	all := make(Snapshots)
	for line := range strings.Lines(string(text)) {
		name, at, whole := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		id, err := format.ParseID(name)
		seconds, numberErr := strconv.ParseInt(at, 10, 64)
		if whole && strings.HasSuffix(line, "\n") && err == nil && numberErr == nil {
			all[id] = time.Unix(seconds, 0)
		}
	}
	return all, nil
}

// Add adds a snapshot; sealed is its file.
func Add(folder string, id format.ID, at time.Time, sealed []byte) error {
	err := change(folder, func(all Snapshots) { all[id] = at })
	return errors.Join(err, keep(folder, id, sealed))
}

// keep stores the copy of a snapshot. A crash may leave a part of it, which Copy returns as it is.
func keep(folder string, id format.ID, sealed []byte) error {
	if err := os.MkdirAll(filepath.Join(folder, copies), 0o700); err != nil {
		return fmt.Errorf("keep a copy of a snapshot: %w", err)
	}
	f, err := os.OpenFile(copyOf(folder, id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("keep a copy of a snapshot: %w", err)
	}
	_, err = f.Write(sealed)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("keep a copy of a snapshot: %w", err)
	}
	return nil
}

func copyOf(folder string, id format.ID) string { return filepath.Join(folder, copies, id.String()) }

// Copy returns the copy of a snapshot in the record, nil if there is none. The caller compares its hash with the ID.
func Copy(folder string, id format.ID) []byte {
	if all, err := Read(folder); err != nil || all[id].IsZero() {
		return nil
	}
	f, err := os.OpenFile(copyOf(folder, id), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	sealed, err := io.ReadAll(io.LimitReader(f, largestCopy))
	if err != nil {
		return nil
	}
	return sealed
}

// Remove removes snapshots and their copies. It returns those that were not in the record.
func Remove(folder string, ids []format.ID) (unknown []format.ID, err error) {
	if all, err := Read(folder); err != nil || len(all) == 0 {
		return ids, err
	}
	err = change(folder, func(all Snapshots) {
		for _, id := range ids {
			if _, known := all[id]; !known {
				unknown = append(unknown, id)
			}
			delete(all, id)
		}
	})
	for _, id := range ids {
		_ = os.Remove(copyOf(folder, id)) // only some bytes of the disk
	}
	return unknown, err
}

// change rewrites the record in place, under a file lock. A crash in between may lose lines, which only loses warnings.
func change(folder string, by func(Snapshots)) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the record of published snapshots: %w", err)
		}
	}()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, fileName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	all, err := parse(f)
	if err != nil {
		return err
	}
	by(all)
	var text bytes.Buffer
	for id, at := range all {
		fmt.Fprintf(&text, "%s %d\n", id, at.Unix())
	}
	if _, err := f.WriteAt(text.Bytes(), 0); err != nil {
		return err
	}
	return f.Truncate(int64(text.Len()))
}
