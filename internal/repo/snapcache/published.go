package snapcache

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
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

// recordName is the file of the record of published and seen snapshots: a line of ID, time and checksum for each, with
// missingMark before the checksum if the snapshot was reported as missing.
const (
	recordName  = "published"
	missingMark = " missing"
)

// Publication is the record of one snapshot.
type Publication struct {
	At      time.Time
	Missing bool // a command has reported that it is gone without a tombstone
}

// Snapshots maps each snapshot to its record.
type Snapshots map[format.ID]Publication

// Published returns the record of the snapshots that this machine has published or seen, an empty one if there is none.
// Lines that are damaged or were cut off by a crash are skipped: another ID would be that of a missing snapshot.
func Published(folder string) (Snapshots, error) {
	f, err := os.OpenFile(filepath.Join(folder, recordName), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
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
		text := line[:max(0, len(line)-sumSize)]
		if withSum(text) != line {
			continue
		}
		text, missing := strings.CutSuffix(text, missingMark)
		name, at, _ := strings.Cut(text, " ")
		id, err := format.ParseID(name)
		seconds, numberErr := strconv.ParseInt(at, 10, 64)
		if err == nil && numberErr == nil {
			all[id] = Publication{time.Unix(seconds, 0), missing}
		}
	}
	return all, nil
}

// sumSize is what withSum adds.
const sumSize = len(" 01234567\n")

// withSum returns a line with its checksum.
func withSum(text string) string {
	return fmt.Sprintf("%s %08x\n", text, crc32.ChecksumIEEE([]byte(text)))
}

// AddPublished records a snapshot that this machine has published.
func AddPublished(folder string, id format.ID, at time.Time) error {
	return change(folder, func(all Snapshots) { all[id] = Publication{At: at} })
}

// AddSeen records snapshots that this machine has seen in the repository.
func AddSeen(folder string, seen Snapshots) error {
	return change(folder, func(all Snapshots) {
		for id, p := range seen {
			if _, had := all[id]; !had {
				all[id] = p
			}
		}
	})
}

// SetMissing records which of the snapshots were reported as missing, or are there again.
func SetMissing(folder string, ids []format.ID, missing bool) error {
	return change(folder, func(all Snapshots) {
		for _, id := range ids {
			if p, had := all[id]; had {
				all[id] = Publication{p.At, missing}
			}
		}
	})
}

// RemovePublished removes snapshots from the record.
func RemovePublished(folder string, ids []format.ID) error {
	if all, err := Published(folder); err != nil || len(all) == 0 {
		return err
	}
	return change(folder, func(all Snapshots) {
		for _, id := range ids {
			delete(all, id)
		}
	})
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
	f, err := os.OpenFile(filepath.Join(folder, recordName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
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
	for id, p := range all {
		line := fmt.Sprintf("%s %d", id, p.At.Unix())
		if p.Missing {
			line += missingMark
		}
		text.WriteString(withSum(line))
	}
	if _, err := f.WriteAt(text.Bytes(), 0); err != nil {
		return err
	}
	return f.Truncate(int64(text.Len()))
}
