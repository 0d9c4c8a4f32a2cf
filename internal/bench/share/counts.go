package share

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// longTrip is longer than all other work between a request and its answer.
const longTrip = 60 * time.Millisecond

// counts: measurement 5.
func (b *bench) counts(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	p := smbtest.NewProxy(b, s.Addr(), longTrip)
	if err := b.storeCounts(ctx, p); err != nil {
		return err
	}
	return b.backupCounts(ctx, p)
}

// storeCounts counts the requests of single store operations.
func (b *bench) storeCounts(ctx context.Context, p *smbtest.Proxy) error {
	st, err := b.open(ctx, p.Port, "counts", smb.Options{Protection: smb.Signed}) // its requests are seen
	if err != nil {
		return err
	}
	pack, small := noise(packSize, 1), noise(smallSize, 2)
	in := func(folder, n int) store.Name {
		return store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x%062x", folder, n)}
	}
	index := store.Name{Kind: store.Index, ID: "01"}
	for _, one := range []struct {
		name string
		do   func() error
	}{
		{"put the first file of a run", func() error { return st.Put(ctx, store.Name{Kind: store.Lease, ID: "01"}, small) }},
		{"put a pack, the first in its folder", func() error { return st.Put(ctx, in(1, 1), pack) }},
		{"put a pack", func() error { return st.Put(ctx, in(1, 2), pack) }},
		{"put a file of 4 KiB", func() error { return st.Put(ctx, index, small) }},
		{"get a file of 4 KiB", func() error { return st.Get(ctx, index, 0, make([]byte, smallSize)) }},
		{"get a pack", func() error { return st.Get(ctx, in(1, 2), 0, make([]byte, packSize)) }},
		{"stat", func() error { _, err := st.Stat(ctx, index); return err }},
		{"delete", func() error { return st.Delete(ctx, index) }},
		{"list indexes", func() error { return list(ctx, st, store.Index) }},
	} {
		if err := b.count(p, one.name, one.do); err != nil {
			return err
		}
	}
	for folder := range 0x100 {
		at := filepath.Join(b.share.Folder, "counts", "packs", fmt.Sprintf("%02x", folder))
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
	}
	return b.count(p, "list packs in 256 folders", func() error { return list(ctx, st, store.Pack) })
}

func list(ctx context.Context, st store.Store, kind store.Kind) error {
	for _, err := range st.List(ctx, kind) {
		if err != nil {
			return err
		}
	}
	return nil
}

// count records the frames that pass the proxy for an operation, including those in flight at its end.
func (b *bench) count(p *smbtest.Proxy, name string, do func() error) error {
	c := smbtest.Watch(p, longTrip)
	began := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	trips, took := c.RoundTrips(), time.Since(began)
	c.Settle()
	values := map[string]float64{"requests": float64(c.Requests()), "round trips": float64(trips),
		"seconds": took.Seconds()}
	for code, times := range c.Each() {
		values[code] = float64(times)
	}
	b.record(ofCounts, name, 0, values)
	return nil
}

// backupCounts counts the requests of an unchanged backup.
func (b *bench) backupCounts(ctx context.Context, p *smbtest.Proxy) error {
	tree := filepath.Join(b.scratch, "counted")
	for i, text := range []string{"one", "two", "three"} {
		at := filepath.Join(tree, text)
		if err := os.MkdirAll(at, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(at, "file"), noise(smallSize, uint64(i)), 0o600); err != nil {
			return err
		}
	}
	home := filepath.Join(b.scratch, "counted-home")
	repo := b.address(p.Port, "counted")
	for _, step := range []struct {
		name string
		args []string
	}{
		{"tidemark init", []string{"init", "--quiet"}},
		{"tidemark backup, of three files", []string{"backup", "--quiet", tree}},
		{"tidemark backup, of the same", []string{"backup", "--quiet", tree}},
		{"tidemark snapshots", []string{"snapshots"}},
	} {
		if err := b.count(p, step.name, func() error {
			_, err := b.tidemark(ctx, home, repo, step.args...)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
