package scan

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// maxOpen is how many directories the stack keeps open. Those further down are closed, and opened again when they are
// needed: a tree that is thousands of levels deep must not need as many descriptors.
const maxOpen = 64

// errMoved: a directory was closed while others were scanned, and could not be found again.
var errMoved = errors.New("the directory it lies in was moved or replaced while the backup ran")

// stack holds the directories whose children are still to be visited. Taking from the top makes the walk depth-first;
// one cursor per directory, not one task per child, keeps a directory of a million subdirectories cheap.
type stack struct {
	mu      sync.Mutex
	wake    sync.Cond
	cursors []cursor
	open    int // cursors whose directory is open
	closed  int // so many cursors from the bottom have a closed one
	active  int // workers that may still push
	stopped bool
}

type cursor struct {
	d    *Directory
	dir  *localfs.Dir // nil: closed for now
	next int          // into d.Subdirs
}

// task is one subdirectory to visit. dir is the open directory it lies in, held by the task; nil: closed meanwhile.
type task struct {
	parent *Directory
	dir    *localfs.Dir
	index  int // among parent.Entries
	slot   int // among parent.Subdirs
}

func newStack() *stack {
	s := &stack{}
	s.wake.L = &s.mu
	return s
}

func (s *stack) begin() {
	s.mu.Lock()
	s.active++
	s.mu.Unlock()
}

// end is called after each task. After the last one it ends the workers that wait.
func (s *stack) end() {
	s.mu.Lock()
	s.active--
	if s.active == 0 && len(s.cursors) == 0 {
		s.wake.Broadcast()
	}
	s.mu.Unlock()
}

func (s *stack) stop() {
	s.mu.Lock()
	s.stopped = true
	s.wake.Broadcast()
	s.mu.Unlock()
}

// push queues the subdirectories of d, which stays open until the last of them is popped, or too many others are open.
func (s *stack) push(d *Directory) {
	d.dir.Retain()
	s.mu.Lock()
	s.cursors = append(s.cursors, cursor{d: d, dir: d.dir})
	s.open++
	s.park()
	s.mu.Unlock()
	s.wake.Broadcast()
}

// park closes the open directory that will be needed last, while too many are open.
func (s *stack) park() {
	for ; s.open > maxOpen && s.closed < len(s.cursors); s.closed++ {
		if c := &s.cursors[s.closed]; c.dir != nil {
			c.dir.Release()
			c.dir = nil
			s.open--
		}
	}
}

// pop returns the next subdirectory; false when the walk is over. After each task the caller calls end.
func (s *stack) pop() (task, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.cursors) == 0 && s.active > 0 && !s.stopped {
		s.wake.Wait()
	}
	if s.stopped || len(s.cursors) == 0 {
		return task{}, false
	}
	s.active++
	at := len(s.cursors) - 1
	top := &s.cursors[at]
	t := task{top.d, top.dir, int(top.d.Subdirs[top.next]), top.next}
	top.next++
	switch {
	case top.next == len(top.d.Subdirs): // the last child takes the cursor's open directory
		if top.dir != nil {
			s.open--
		}
		*top = cursor{}
		s.cursors = s.cursors[:at]
		s.closed = min(s.closed, at)
	case top.dir != nil:
		top.dir.Retain()
	}
	return t, true
}

// dirOf returns the open directory of a task, which the caller releases. A closed one is opened again, and kept open
// for the other children.
func (s *stack) dirOf(t task) (*localfs.Dir, error) {
	if t.dir != nil {
		return t.dir, nil
	}
	dir, err := t.parent.Reopen()
	if errors.Is(err, localfs.ErrStopped) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", errMoved, err.Error()) // not as ErrVanished: the entry itself may be there
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.cursors) - 1; i >= 0; i-- {
		c := &s.cursors[i]
		if c.d != t.parent {
			continue
		}
		if c.dir == nil {
			dir.Retain()
			c.dir = dir
			s.open++
			s.closed = min(s.closed, i)
		}
		break
	}
	return dir, nil
}

// release closes the directories of a walk that was stopped.
func (s *stack) release() {
	for _, c := range s.cursors {
		if c.dir != nil {
			c.dir.Release()
		}
	}
	s.cursors = nil
}
