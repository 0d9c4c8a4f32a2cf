package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// failedDir has a file for each step of a run in which objects failed: their events as the step printed them, one a
// line. Its name begins with the ID of the run, so the names are in the order of the runs.
const failedDir = "failed"

// keptFailed bounds the size of these files together; the newest one stays.
const keptFailed = 256 << 20

// FailedFile returns the file for the failed objects of a step.
func FailedFile(dir, run, step string) string {
	return filepath.Join(dir, failedDir, run+"."+step+".jsonl")
}

// FailedObjects yields the objects that failed in a run. A line that a crash has cut is skipped.
func FailedObjects(dir, run string) iter.Seq2[event.Error, error] {
	return func(yield func(event.Error, error) bool) {
		entries, err := os.ReadDir(filepath.Join(dir, failedDir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(event.Error{}, fmt.Errorf("read the record: %w", err))
			return
		}
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), run+".") {
				continue
			}
			for e, err := range failedIn(filepath.Join(dir, failedDir, entry.Name())) {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

func failedIn(path string) iter.Seq2[event.Error, error] {
	return func(yield func(event.Error, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(event.Error{}, fmt.Errorf("read the record: %w", err))
			return
		}
		defer func() { _ = f.Close() }() // only read
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 2<<20)
		for lines.Scan() {
			var e event.Error
			if json.Unmarshal(lines.Bytes(), &e) == nil && !yield(e, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(event.Error{}, fmt.Errorf("read the record: %w", err))
		}
	}
}

// TrimFailed removes the oldest files of failed objects until the others are small enough.
func TrimFailed(dir string) {
	entries, err := os.ReadDir(filepath.Join(dir, failedDir))
	if err != nil {
		return // there is none
	}
	var size int64
	for i, entry := range slices.Backward(entries) {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		if size += info.Size(); size > keptFailed && i < len(entries)-1 {
			_ = os.Remove(filepath.Join(dir, failedDir, entry.Name())) // the next call does
		}
	}
}
