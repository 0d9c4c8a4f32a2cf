package check

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// WithoutKey compares every stored file that is named by the hash of its bytes with its name, and checks the config and
// the key slots. It needs no key, so the machine that holds the repository can run it. It cannot detect a missing file.
// parallel 0 means 4 concurrent files; each takes 4 MiB of memory.
func WithoutKey(ctx context.Context, st store.Store, parallel int, l *report.Ledger) (*Result, error) {
	if parallel <= 0 {
		parallel = defaultParallel
	}
	c := newChecker(st, nil, Options{Parallel: parallel}, l)
	defer c.clock.Stop()
	if err := c.names(c.clock.Within(ctx)); err != nil {
		return c.found.Result(), fmt.Errorf("check without key: %w", err)
	}
	l.Phase(report.Done)
	return c.found.Result(), nil
}

func (c *checker) names(ctx context.Context) error {
	c.l.Phase(report.Verifying)
	c.found.Expect(1, 0)
	if err := c.checkConfig(ctx); err != nil {
		return err
	}
	if err := c.checkKeys(ctx); err != nil {
		return err
	}
	leases, err := c.list(ctx, store.Lease)
	if err != nil {
		return err
	}
	for _, info := range leases {
		c.found.Note("lease %s: a writer was active at %s; its name needs a key", info.Name.ID,
			info.Modified.UTC().Format("2006-01-02 15:04:05"))
	}
	buffers := make(chan []byte, c.opt.Parallel)
	for range c.opt.Parallel {
		buffers <- nil // allocated on first use
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(c.opt.Parallel)
	for _, kind := range []store.Kind{store.Snapshot, store.Mark, store.Index, store.Pack} {
		if err = c.startNames(ctx, g, kind, buffers); err != nil {
			break
		}
	}
	if waitErr := c.wait(g); waitErr != nil {
		return waitErr
	}
	return err
}

// startNames compares the files of one kind.
func (c *checker) startNames(ctx context.Context, g *errgroup.Group, kind store.Kind, buffers chan []byte) error {
	infos, err := c.list(ctx, kind)
	if err != nil {
		return err
	}
	bytes := uint64(0)
	for _, info := range infos {
		bytes += uint64(info.Size)
	}
	c.found.Expect(uint64(len(infos)), bytes)
	n := uint64(len(infos))
	c.found.Count(func(r *Result) {
		switch kind {
		case store.Snapshot:
			r.Snapshots = n
		case store.Pack:
			r.Packs, r.PacksRead = n, n
		}
	})
	for _, info := range infos {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.start(ctx, g, func(ctx context.Context) error {
			buf := <-buffers
			defer func() { buffers <- buf }()
			if buf == nil {
				buf = make([]byte, maxRead)
			}
			return c.checkName(ctx, info, buf)
		})
	}
	return nil
}

func (c *checker) checkName(ctx context.Context, info store.Info, buf []byte) error {
	id := idOf(info)
	sum, err := object.Sum(ctx, c.st, info.Name, info.Size, buf)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return nil // removed since it was listed
	case err == nil && !object.Names(info.Name, sum):
		err = errName
	case err == nil && info.Name.Kind == store.Pack && info.Size < pack.HeaderSize+pack.FooterSize:
		err = fmt.Errorf("%d bytes are no pack", info.Size)
	}
	if err == nil {
		c.found.Read(uint64(info.Size))
	}
	kind := kindOf(info.Name.Kind)
	return c.found.Judge(ctx, kind, id, string(kind)+" "+info.Name.ID, err)
}
