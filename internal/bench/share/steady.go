package share

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

const (
	// window is how many requests form a window, and strained how many times the best value its slowest tenth must take
	// to indicate other load. Both distinguish a loaded server from an idle one when requests are small, alike, and one
	// at a time.
	window   = 128
	strained = 1.5
	// rest is the pause between two reads of the light load.
	rest = 15 * time.Millisecond
)

// steadiness: measurement 6.
func (b *bench) steadiness(ctx context.Context) error {
	s, err := b.server()
	if err != nil {
		return err
	}
	p := smbtest.NewProxy(b, s.Addr(), 0)
	l := packLoad(packCount)
	pool, err := b.open(ctx, p.Port, "steady", smb.Options{Protection: smb.AsOffered})
	if err != nil {
		return err
	}
	single, err := b.open(ctx, p.Port, "steady-single",
		smb.Options{Protection: smb.AsOffered, Parallel: smb.Parallel{Sessions: 1, Inflight: 1}})
	if err != nil {
		return err
	}
	other, err := b.client(l, "steady-other")
	if err != nil {
		return err
	}
	if _, err := other(ctx); err != nil {
		return err
	}
	read := filepath.Join(s.Folder, "steady-other", l.name(0).ID)
	for round := range b.runs {
		for _, one := range []struct {
			name   string
			store  store.Store
			at     int
			beside func(context.Context) error
		}{
			{"one request, nobody else", single, 1, nil},
			{"one request, somebody reads 4 KiB every 15 ms", single, 1,
				func(ctx context.Context) error { return readLightly(ctx, read) }},
			{"one request, somebody stores large files", single, 1,
				func(ctx context.Context) error { _, err := other(ctx); return err }},
			{"backup, nobody else", pool, uploads, nil},
			{"backup, somebody reads 4 KiB every 15 ms", pool, uploads,
				func(ctx context.Context) error { return readLightly(ctx, read) }},
			{"backup, somebody stores large files", pool, uploads,
				func(ctx context.Context) error { _, err := other(ctx); return err }},
		} {
			c := smbtest.Watch(p, 0)
			if err := beside(ctx, one.beside, func(ctx context.Context) error {
				for range 4 {
					if _, err := l.put(ctx, one.store, len(l.files), one.at); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			b.record(ofSteadiness, one.name, round, judge(c.Took()))
		}
	}
	return nil
}

// beside runs work while other runs repeatedly.
func beside(ctx context.Context, other, work func(context.Context) error) error {
	if other == nil {
		return work(ctx)
	}
	busy, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	var wrong error
	group.Go(func() {
		for busy.Err() == nil {
			if err := other(busy); err != nil && busy.Err() == nil {
				wrong = err
				return
			}
		}
	})
	err := work(ctx)
	stop()
	group.Wait()
	if err == nil {
		err = wrong
	}
	return err
}

// judge returns statistics of request times: how long they took, and how much the slowest tenth of each window differs
// from that of the best.
func judge(took []time.Duration) map[string]float64 {
	if len(took) < window {
		return nil
	}
	var slow []float64
	for some := range slices.Chunk(took, window) {
		if len(some) == window {
			some = slices.Sorted(slices.Values(some))
			slow = append(slow, some[window*9/10].Seconds()*1e3)
		}
	}
	least, above := slices.Min(slow), 0
	for _, s := range slow {
		if s > strained*least {
			above++
		}
	}
	all := slices.Sorted(slices.Values(took))
	return map[string]float64{
		"p50": all[len(all)/2].Seconds() * 1e3, "p90": kit.Median(slow), "least": least, "most": slices.Max(slow),
		"windows": float64(len(slow)), "strained": float64(above) / float64(len(slow)),
	}
}
