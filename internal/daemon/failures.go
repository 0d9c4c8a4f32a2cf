package daemon

import (
	"os"
	"path/filepath"
)

// mostListed bounds the size of a list of failed objects.
const mostListed = 64 << 20

// failureList is the file with the objects that failed in a step. That it cannot be written is no reason for a step to
// end: the message of the run has the first objects.
type failureList struct {
	path   string // "": no list
	file   *os.File
	size   int
	broken bool
}

// add appends a line. The file is made with the first one.
func (l *failureList) add(line []byte) {
	if l.path == "" || l.broken || l.size+len(line) >= mostListed {
		return
	}
	var err error
	if l.file == nil {
		if err = os.MkdirAll(filepath.Dir(l.path), 0o700); err == nil {
			l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		}
	}
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	l.size += len(line) + 1
	l.broken = err != nil
}

func (l *failureList) close() {
	if l.file != nil {
		_ = l.file.Close() // add has reported nothing either
	}
}
