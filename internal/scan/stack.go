package scan

import "sync"

// stack holds the directories whose children are still to be visited. Taking from the top makes the walk depth-first;
// one cursor per directory, not one task per child, keeps a directory of a million subdirectories cheap.
type stack struct {
	mu      sync.Mutex
	wake    sync.Cond
	cursors []cursor
	active  int // workers that may still push
	stopped bool
}

type cursor struct {
	d    *Directory
	next int // into d.Subdirs
}

// task is one subdirectory to visit; release gives back the hold on its parent's descriptor once it has been opened.
type task struct {
	parent *Directory
	index  int // among parent.Entries
	slot   int // among parent.Subdirs
}

func (t task) release() {
	if t.parent.dir != nil {
		t.parent.dir.Release()
	}
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

// end says that a task is done. When nothing is left and nobody works, everybody may go.
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

// push queues the subdirectories of d and keeps d open until the last of them has been opened.
func (s *stack) push(d *Directory) {
	if d.dir != nil {
		d.dir.Retain()
	}
	s.mu.Lock()
	s.cursors = append(s.cursors, cursor{d: d})
	s.mu.Unlock()
	s.wake.Broadcast()
}

// pop returns the next subdirectory; false when the walk is over. Every pop that returned true is answered by one end.
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
	top := &s.cursors[len(s.cursors)-1]
	t := task{top.d, int(top.d.Subdirs[top.next]), top.next}
	top.next++
	if top.next == len(top.d.Subdirs) {
		// The last child takes over the cursor's hold.
		s.cursors = s.cursors[:len(s.cursors)-1]
	} else if top.d.dir != nil {
		top.d.dir.Retain()
	}
	return t, true
}

// release closes what a stopped walk has left.
func (s *stack) release() {
	for _, c := range s.cursors {
		if c.d.dir != nil {
			c.d.dir.Release()
		}
	}
	s.cursors = nil
}
