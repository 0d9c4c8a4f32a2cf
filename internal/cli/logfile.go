package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// mostLogged bounds a log, in bytes. A larger one is renamed to NAME.old.
const mostLogged = 10 << 20

// logFile is a writer that appends lines, with the time before each, to a log. A new log can be read by its owner only.
type logFile struct {
	path   string
	most   int64
	failed func(error) // gets the first error; later ones are dropped

	mu     sync.Mutex
	broken bool
}

// Write implements io.Writer. It never fails: a run goes on without a log.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return len(p), nil
	}
	stamp := time.Now().Format(time.DateTime + " ")
	var text bytes.Buffer
	for line := range bytes.Lines(p) {
		text.WriteString(stamp)
		text.Write(line)
	}
	if err := l.add(text.Bytes()); err != nil {
		l.broken = true
		l.failed(err)
	}
	return len(p), nil
}

// add appends text. The file is opened each time, since another process may have renamed it.
func (l *logFile) add(text []byte) error {
	f, err := l.open()
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() > 0 && info.Size()+int64(len(text)) > l.most {
		if at, err := os.Lstat(l.path); err == nil && os.SameFile(at, info) { // else another process was first
			err = os.Rename(l.path, l.path+".old")
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, f.Close())
			}
		}
		_ = f.Close() // nothing was written
		if f, err = l.open(); err != nil {
			return err
		}
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// open opens the log. It follows no symbolic link, and does not wait for the reader of a pipe.
func (l *logFile) open() (*os.File, error) {
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s: it is no ordinary file", human.Printable(l.path)), f.Close())
	}
	return f, nil
}

// logs lets the printer write to the logs that the options name. A session log is that of backups and restores only.
func (a *app) logs(command string) {
	plain := a.print
	errorLog, sessionLog := a.spec.Logs()
	open := func(path, option string) io.Writer {
		if path == "" {
			return nil
		}
		return &logFile{path: path, most: mostLogged, failed: func(err error) {
			plain.Note(fmt.Sprintf("warning: nothing is written to the log of --%s: %v", option, err))
		}}
	}
	if !slices.Contains([]string{"backup", "restore", dsmcName}, command) {
		sessionLog = ""
	}
	a.print = output.Logged(plain, open(errorLog, "error-log"), open(sessionLog, "session-log"))
}
