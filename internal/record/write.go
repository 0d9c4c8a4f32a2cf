package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy/pages"
)

// Of the files of the record: the size from which one is replaced by a new one, and how many older ones are kept.
const (
	maxSize = 4 << 20
	kept    = 8
)

// The names of the newest files: the log, and the runs. Older files have a number behind the name, 1 the youngest.
const (
	logName  = "log.jsonl"
	runsName = "runs.jsonl"
)

// Record writes the log and the runs to files in a folder, one JSON object per line.
type Record struct {
	mu        sync.Mutex
	log, runs *series
	warn      func(text string)
	broken    bool // the last write failed, and warn was called
}

// Open opens the record in a folder, and makes the folder if necessary. warn gets a message when the record cannot be
// written, once until it can be written again. Such a failure has no other effect.
func Open(dir string, warn func(text string)) (*Record, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the record: %w", err)
	}
	return &Record{log: newSeries(dir, logName), runs: newSeries(dir, runsName), warn: warn}, nil
}

// Event appends e. At the end of a run, the files are flushed to the disk.
func (r *Record) Event(e *Event) {
	line, ok := Line(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	if ok {
		err = r.log.append(line)
	}
	if e.Kind == Finished && e.Run != nil {
		run := *e.Run
		run.Type, run.Version = "run", version
		err = errors.Join(r.runs.append(run), err)
		if err == nil {
			err = errors.Join(r.runs.sync(), r.log.sync())
		}
	}
	r.report(e.At, err)
}

// report calls warn when writing begins to fail, and records a gap when it works again.
func (r *Record) report(at time.Time, err error) {
	if err != nil && !r.broken && r.warn != nil {
		r.warn(fmt.Sprintf("the record cannot be written: %v; backups go on without it", err))
	}
	if err == nil && r.broken {
		line, _ := Line(&Event{At: at, Kind: Note, Text: "The record has a gap: it could not be written"})
		err = r.log.append(line)
	}
	r.broken = err != nil
}

// Close closes the files. Later events open them again.
func (r *Record) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.log.close(), r.runs.close())
}

// series is a file with lines and its predecessors.
type series struct {
	path string
	max  int64
	file *os.File // nil: to be opened
	size int64
	cut  bool // the last line lacks its end
}

func newSeries(dir, name string) *series {
	return &series{path: filepath.Join(dir, name), max: maxSize}
}

// append writes v as one line by one call, so that a crash cuts at most this line. After a line without an end, the
// next one begins on a line of its own.
func (s *series) append(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	if err := s.open(int64(len(line)) + 1); err != nil {
		return err
	}
	line = append(line, '\n')
	if s.cut {
		line = append([]byte{'\n'}, line...)
	}
	n, err := s.file.Write(line)
	s.size += int64(n)
	if n > 0 {
		s.cut = line[n-1] != '\n'
	}
	return err
}

// open opens the newest file, and begins another one if it has no space for n bytes.
func (s *series) open(n int64) error {
	if s.file != nil && s.size+n > s.max && s.size > 0 {
		if err := s.close(); err != nil {
			return err
		}
		if err := s.rotate(); err != nil {
			return err
		}
	}
	if s.file != nil {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if s.size, s.cut, err = end(f); err != nil {
		_ = f.Close() // the first error is the cause
		return err
	}
	s.file = f
	if s.size > 0 && s.size+n > s.max {
		return s.open(n)
	}
	return nil
}

// end returns the size of f, and whether its last line lacks its end.
func end(f *os.File) (size int64, cut bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, false, err
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return info.Size(), last[0] != '\n', err
}

// rotate renames each file to the next number. The oldest one is replaced.
func (s *series) rotate() error {
	for i := kept - 1; i >= 0; i-- {
		err := os.Rename(numbered(s.path, i), numbered(s.path, i+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// numbered returns the name of an older file; 0 is the newest.
func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}

func (s *series) sync() error {
	if s.file == nil {
		return nil
	}
	return pages.Sync(s.file, false)
}

func (s *series) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
