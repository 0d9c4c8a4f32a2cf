package record

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// Filter selects lines of the record.
type Filter struct {
	Job   string    // "": all, and those of the service
	Run   string    // ID; "": all
	Since time.Time // zero: all
	Last  int       // the newest of these; 0: all
}

// Read yields the lines of the log in a folder, oldest first. It needs no lock: a line that is being written, or was
// cut by a crash, is skipped. A folder without a record has no lines.
func Read(dir string, f Filter) iter.Seq2[event.Log, error] {
	return read(filepath.Join(dir, logName), f, ofLog)
}

// Runs yields the runs in a folder, as Read does.
func Runs(dir string, f Filter) iter.Seq2[event.Run, error] {
	all := read(filepath.Join(dir, runsName), f, func(r *event.Run) (string, string, time.Time) {
		return r.Job, r.ID, r.End
	})
	return func(yield func(event.Run, error) bool) {
		last := map[string]string{} // by job
		for r, err := range all {
			if err == nil && last[r.Job] == r.ID { // the service was killed between writing it and remembering that
				continue
			}
			if last[r.Job] = r.ID; !yield(r, err) {
				return
			}
		}
	}
}

func ofLog(l *event.Log) (job, run string, at time.Time) { return l.Job, l.Run, l.Time }

// Follow yields the lines of Read and then each new line, until ctx ends. It looks for them at each value of tick.
func Follow(ctx context.Context, dir string, f Filter, tick <-chan time.Time) iter.Seq2[event.Log, error] {
	return func(yield func(event.Log, error) bool) {
		c := &cursor{path: filepath.Join(dir, logName)}
		defer c.close()
		for ; ; f.Last = 0 {
			for line, err := range selected(c, f, ofLog) {
				if !yield(line, err) || err != nil {
					return
				}
			}
			select {
			case <-tick:
			case <-ctx.Done():
				return
			}
		}
	}
}

func read[T any](path string, f Filter, of func(*T) (job, run string, at time.Time)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c := &cursor{path: path}
		defer c.close()
		selected(c, f, of)(yield)
	}
}

// selected yields what f selects of the lines behind the cursor.
func selected[T any](c *cursor, f Filter, of func(*T) (job, run string, at time.Time)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last []T // at most f.Last
		var failed error
		for line, err := range c.lines() {
			var v T
			if failed = err; err != nil || json.Unmarshal(line, &v) != nil {
				continue
			}
			job, run, at := of(&v)
			switch {
			case at.IsZero() || f.Job != "" && job != f.Job || f.Run != "" && run != f.Run || at.Before(f.Since):
			case f.Last > 0:
				last = append(last[max(0, len(last)+1-f.Last):], v)
			case !yield(v, nil):
				return
			}
		}
		for i := range last {
			if !yield(last[i], nil) {
				return
			}
		}
		if failed != nil {
			var none T
			yield(none, fmt.Errorf("read the record: %w", failed))
		}
	}
}

// cursor is a position in a series of files. It keeps its file open, so that the file is found after it was renamed.
type cursor struct {
	path string
	file *os.File // nil: before the oldest file
	at   int64
}

// lines yields each complete line behind the cursor, which it moves, and ends with an error if there is one.
func (c *cursor) lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		files, err := openAll(c.path)
		if err != nil {
			yield(nil, err)
			return
		}
		start := 0
		for i, f := range files {
			if c.file != nil && same(f, c.file) {
				start = i
			}
		}
		defer func() {
			for _, f := range files {
				if f != c.file {
					_ = f.Close() // only read
				}
			}
		}()
		for i, f := range files[start:] {
			if i > 0 || c.file == nil || !same(f, c.file) {
				c.at = 0
			}
			c.close()
			c.file = f
			if !c.rest(yield) {
				return
			}
		}
	}
}

// rest yields the complete lines of the file behind the cursor. It reports whether there may be more in the next file.
func (c *cursor) rest(yield func([]byte, error) bool) bool {
	in := bufio.NewReaderSize(io.NewSectionReader(c.file, c.at, 1<<62), 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return true
		}
		c.at += int64(len(line))
		if !yield(line, err) || err != nil {
			return false
		}
	}
}

func (c *cursor) close() {
	if c.file != nil {
		_ = c.file.Close() // only read
		c.file = nil
	}
}

// openAll opens the files of a series and returns them oldest first. They are opened newest first: a file that is
// renamed meanwhile is found twice and not missed. If another file became the newest, it begins again.
func openAll(path string) ([]*os.File, error) {
	for {
		newest, _ := os.Stat(path) // the zero value is no file
		files, err := openEach(path)
		if err != nil {
			return nil, err
		}
		if now, _ := os.Stat(path); os.SameFile(newest, now) || newest == nil && now == nil {
			return files, nil
		}
		closeAll(files)
	}
}

func openEach(path string) (files []*os.File, err error) {
	for i := 0; i <= kept; i++ {
		f, err := os.Open(numbered(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			closeAll(files)
			return nil, err
		}
		if len(files) > 0 && same(f, files[0]) {
			_ = f.Close() // only read
			continue
		}
		files = append([]*os.File{f}, files...)
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // only read
	}
}

func same(a, b *os.File) bool {
	x, err := a.Stat()
	y, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(x, y)
}
