package iopolicy_test

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// quietWatcher never sees anything.
type quietWatcher struct{}

func (quietWatcher) Look(iopolicy.Moment) iopolicy.Sighting { return iopolicy.Sighting{} }
func (quietWatcher) Interval() time.Duration                { return 5 * time.Millisecond }

// pair is one operation that does nothing.
func pair(ctx context.Context, p *iopolicy.Pass) error {
	g, err := p.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096})
	if err != nil {
		return err
	}
	g.End(4096)
	return nil
}

// BenchmarkPair is what a gate costs an operation while no window is open: aim 100 ns without allocations.
func BenchmarkPair(b *testing.B) {
	for _, policy := range []iopolicy.Policy{iopolicy.Important, iopolicy.Standard, iopolicy.Throttle, iopolicy.Passive} {
		gate := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Watcher: quietWatcher{}})
		pass := gate.Pass(iopolicy.NewClient(policy))
		ctx, cancel := context.WithCancel(context.Background())
		b.Run(policy.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := pair(ctx, pass); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(policy.String()+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(2) // of 2 processors: 4 goroutines
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := pair(ctx, pass); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		cancel()
	}
}

type nothing struct{}

func (nothing) Submitted() iopolicy.Bytes { return iopolicy.Bytes{} }
