package rig

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

// Endless runs backups one after the other, each into an empty repository.
type Endless struct {
	disk   *Disk
	first  chan *Job
	cancel context.CancelFunc
	done   chan struct{}
	err    error // after done
}

// Span is a time from one moment to another.
type Span struct{ From, To time.Time }

// overlap is how much of s lies between from and to.
func (s Span) overlap(from, to time.Time) time.Duration {
	if s.From.After(from) {
		from = s.From
	}
	if s.To.Before(to) {
		to = s.To
	}
	return max(0, to.Sub(from))
}

// Keep starts backups of tree, and returns when the first of them does I/O.
func (d *Disk) Keep(ctx context.Context, c *Candidate, tree string) (*Endless, *Job, error) {
	inner, cancel := context.WithCancel(ctx)
	e := &Endless{disk: d, cancel: cancel, done: make(chan struct{}), first: make(chan *Job, 1)}
	go func() {
		defer close(e.done)
		defer close(e.first)
		e.err = d.again(inner, c, tree, e)
	}()
	first, ok := <-e.first
	if !ok {
		cancel()
		<-e.done
		return nil, nil, e.err
	}
	return e, first, first.Awake(ctx)
}

func (d *Disk) again(ctx context.Context, c *Candidate, tree string, e *Endless) error {
	for i := 0; ; i++ {
		p, err := d.Fresh(c, fmt.Sprintf("%s %d", c.Name, i))
		if err == nil && i > 0 {
			err = kit.DropClean() // it would find the whole source there
		}
		if err != nil {
			return err
		}
		j, err := d.Start(ctx, c, p, tree)
		if ctx.Err() != nil {
			if err == nil {
				<-j.Done
			}
			return nil
		}
		if err != nil {
			return err
		}
		if i == 0 {
			e.first <- j
		}
		<-j.Done
		if ctx.Err() != nil {
			return nil
		}
		if j.Err != nil {
			return j.Err
		}
	}
}

// Stop ends the backup that runs, and removes all repositories.
func (e *Endless) Stop() error {
	e.cancel()
	<-e.done
	return errors.Join(e.err, e.disk.Clear())
}
