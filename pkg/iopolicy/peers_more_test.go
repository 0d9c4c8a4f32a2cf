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
type bookish struct {
	seen  iopolicy.Sighting
	taken time.Time // when the last slot began, whoever took it
	asked int       // how often Free was asked
}

func (*bookish) Publish(iopolicy.Tier, time.Time) {}
func (*bookish) Enter(iopolicy.Tier)              {}
func (*bookish) Leave(iopolicy.Tier)              {}

func (b *bookish) Seen() iopolicy.Sighting { return b.seen }

func (b *bookish) Claim(t iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	ok, next := b.Free(t, now, period)
	if ok {
		b.taken = now
	}
	return ok, next
}

func (b *bookish) Free(_ iopolicy.Tier, now time.Time, period time.Duration) (bool, time.Time) {
	b.asked++
	return now.Sub(b.taken) >= period, b.taken.Add(period)
}

func (b *bookish) Charge(_ iopolicy.Tier, at time.Time) {
	if at.After(b.taken) {
		b.taken = at
	}
}

// TestASlotOfThePeersIsNotWastedOnTheCache: who has a turn keeps it until an I/O reaches the device, also beside peers.
func TestASlotOfThePeersIsNotWastedOnTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		peers := &bookish{}
		peers.seen.Inflight[0] = true // somebody better is always there
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Medium: iopolicy.SSD, Peers: peers})
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

func TestTheFirstInAWindowAsksThePeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := &bookish{taken: time.Now()} // somebody of another process has this slot
		peers.seen.Inflight[0] = true
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Medium: iopolicy.HDD, Peers: peers})
		start := time.Now()
		grant, err := g.Pass(iopolicy.NewClient(iopolicy.Throttle)).Begin(t.Context(), iopolicy.Op{Certain: true})
		require.NoError(t, err)
		grant.End(1)
		require.Equal(t, 200*time.Millisecond, time.Since(start))
		require.Equal(t, time.Now(), peers.taken, "and its own I/O is told to them")
	})
}

func TestWhatPeersDidBeforeIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := &bookish{}
		peers.seen.Newest[0] = time.Now().Add(-time.Hour)
		g := iopolicy.New(iopolicy.Config{Settings: iopolicy.Default(), Peers: peers})
		time.Sleep(time.Millisecond)
		grant, err := g.Pass(iopolicy.NewClient(iopolicy.Throttle)).Begin(t.Context(), iopolicy.Op{})
		require.NoError(t, err)
		grant.End(0)
		s := g.Stats()
		require.Zero(t, s.Engaged)
		require.Zero(t, s.Windows)
	})
}
