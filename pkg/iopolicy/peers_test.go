package iopolicy_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// bookish are peers that keep a ledger of one slot at a time, as a file that processes share does.
type recordingPeers struct {
	seen  iopolicy.Sighting
	taken time.Time // when the last slot began, in any process
	asked int       // how often Free was asked
}

func (*recordingPeers) Publish(iopolicy.Tier, time.Time) {}
func (*recordingPeers) Enter(iopolicy.Tier)              {}
func (*recordingPeers) Leave(iopolicy.Tier)              {}

func (b *recordingPeers) Seen() iopolicy.Sighting { return b.seen }

func (b *recordingPeers) Claim(t iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	ok, next := b.Free(t, now, period)
	if ok {
		b.taken = now
	}
	return ok, next
}

func (b *recordingPeers) Free(_ iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	b.asked++
	return now.Sub(b.taken) >= period, b.taken.Add(period)
}

func (b *recordingPeers) Charge(_ iopolicy.Tier, at time.Time) {
	if at.After(b.taken) {
		b.taken = at
	}
}

// TestCacheHitLeavesThePeersSlot: an operation keeps its slot until an I/O reaches the device, also beside peers.
func TestCacheHitLeavesThePeersSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		peers := &recordingPeers{}
		peers.seen.Inflight[0] = true // a better tier is always in flight
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: iopolicy.SSD, Peers: peers})
		pass := g.Pass(iopolicy.NewClient(iopolicy.Throttle))
		charged := 0
		for i := 0; ; i++ {
			cached := i%3 != 0 // two of three are answered by the cache, in no time
			grant, err := pass.Begin(ctx, iopolicy.Op{Kind: iopolicy.Metadata, Certain: !cached})
			if err != nil {
				break
			}
			grant.End(0)
			if !cached {
				charged++
			}
		}
		require.InDelta(t, 10*40, charged, 2)
		require.EqualValues(t, charged, g.Stats().Charged)
		require.Positive(t, peers.asked)
	})
}

func TestFirstInAWindowReservesFromPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := &recordingPeers{taken: time.Now()} // another process has this slot
		peers.seen.Inflight[0] = true
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Medium: iopolicy.HDD, Peers: peers})
		start := time.Now()
		grant, err := g.Pass(iopolicy.NewClient(iopolicy.Throttle)).Begin(t.Context(), iopolicy.Op{Certain: true})
		require.NoError(t, err)
		grant.End(1)
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		require.Equal(t, time.Now(), peers.taken, "and its own I/O is reported to them")
	})
}

func TestEarlierPeerIOIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := &recordingPeers{}
		peers.seen.Newest[0] = time.Now().Add(-time.Hour)
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.DefaultSettings(), Peers: peers})
		time.Sleep(time.Millisecond)
		grant, err := g.Pass(iopolicy.NewClient(iopolicy.Throttle)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		grant.End(0)
		s := g.Stats()
		require.Zero(t, s.Engaged)
		require.Zero(t, s.Windows)
	})
}
