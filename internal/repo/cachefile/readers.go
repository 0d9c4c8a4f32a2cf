package cachefile

import (
	"sync"

	bolt "go.etcd.io/bbolt"
)

// ReadTx is a pooled read transaction. It belongs to one goroutine at a time. Beginning and ending a transaction takes
// three times as long as one lookup and allocates memory, so frequent readers reuse transactions.
type ReadTx[T any] struct {
	tx       *bolt.Tx
	age      uint64 // number of changes when the transaction began
	Prepared T      // cursors and buckets that belong to the transaction
}

// ReadPool keeps idle read transactions of a file. While the file is changed none is kept: an open read transaction
// delays the growth of the mapping, prevents the reuse of pages, and does not see the change.
type ReadPool[T any] struct {
	file    *File
	prepare func(*bolt.Tx) T

	mu       sync.Mutex
	free     []*ReadTx[T]
	changing int    // changes in progress
	changes  uint64 // changes begun or ended
}

// NewReadPool makes the pool of a file that was just opened. prepare runs once for each transaction. A file has one
// pool at most.
func NewReadPool[T any](f *File, prepare func(*bolt.Tx) T) *ReadPool[T] {
	p := &ReadPool[T]{file: f, prepare: prepare}
	f.pool = p
	return p
}

// Read runs read in a transaction that sees all completed changes.
func (p *ReadPool[T]) Read(what string, read func(T) error) error {
	return p.file.guard(what, func() error {
		r, err := p.take()
		if err != nil {
			return err
		}
		err = read(r.Prepared)
		p.file.mapped.touched(p.file.db, r.tx)
		if err != nil {
			_ = p.put(r)
			return err
		}
		return p.put(r)
	})
}

func (p *ReadPool[T]) take() (*ReadTx[T], error) {
	p.mu.Lock()
	age := p.changes
	if n := len(p.free); n > 0 {
		r := p.free[n-1]
		p.free = p.free[:n-1]
		p.mu.Unlock()
		return r, nil
	}
	p.mu.Unlock()
	tx, err := p.file.begin(false)
	if err != nil {
		return nil, err
	}
	return &ReadTx[T]{tx: tx, age: age, Prepared: p.prepare(tx)}, nil
}

func (p *ReadPool[T]) put(r *ReadTx[T]) error {
	p.mu.Lock()
	keep := p.changing == 0 && r.age == p.changes
	if keep {
		p.free = append(p.free, r)
	}
	p.mu.Unlock()
	if keep {
		return nil
	}
	return p.file.end(r.tx)
}

// beginChange ends all idle transactions and keeps none until endChange.
func (p *ReadPool[T]) beginChange() error {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.changing++
	p.changes++
	p.mu.Unlock()
	for _, r := range free {
		if err := p.file.end(r.tx); err != nil {
			return err
		}
	}
	return nil
}

func (p *ReadPool[T]) endChange() {
	p.mu.Lock()
	p.changing--
	p.changes++
	p.mu.Unlock()
}
