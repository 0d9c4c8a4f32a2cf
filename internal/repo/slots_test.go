package repo_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
)

// TestOneSlotIsRead: where each request takes a round trip, the slot that opened the repository before is the only one
// that is read. If it does not open, or takes a passphrase, all are.
func TestOneSlotIsRead(t *testing.T) { synctest.Test(t, oneSlotIsRead) }

func oneSlotIsRead(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	first := r.SlotID()
	second, err := r.AddSlot(t.Context(), passphrase("second"), "second", quick)
	require.NoError(t, err)
	for _, c := range []struct {
		what     string
		opt      repo.OpenOptions
		read     int
		unread   int
		under    func(store.Store) store.Store
		mistaken bool
	}{
		{what: "the known one", opt: repo.OpenOptions{KnownSlot: first, KnownSuffices: true,
			Unlock: stored.UnlockWith(machineKey())}, read: 1, unread: 1},
		{what: "all", opt: repo.OpenOptions{KnownSlot: first, Unlock: stored.UnlockWith(machineKey())}, read: 2},
		{what: "it does not open", opt: repo.OpenOptions{KnownSlot: first, KnownSuffices: true,
			Unlock: stored.UnlockWith(passphrase("second"))}, read: 2},
		{what: "a passphrase", opt: repo.OpenOptions{KnownSlot: second.String(), KnownSuffices: true,
			Unlock: stored.UnlockWith(machineKey(), passphrase("second"))}, read: 2},
		{what: "it is gone", opt: repo.OpenOptions{KnownSlot: second.String()[1:] + "0", KnownSuffices: true,
			Unlock: stored.UnlockWith(machineKey())}, read: 2},
		{what: "a disk of this machine", opt: repo.OpenOptions{KnownSlot: first, KnownSuffices: true,
			Unlock: stored.UnlockWith(machineKey())}, read: 2, under: func(st store.Store) store.Store { return near{st} }},
		{what: "none fits", opt: repo.OpenOptions{KnownSlot: first, KnownSuffices: true,
			Unlock: stored.UnlockWith(passphrase("third"))}, read: 2, mistaken: true},
	} {
		counted := faultstore.Wrap(st, faultstore.Plan{Ops: faultstore.Get, Kind: store.Key})
		var under store.Store = counted
		if c.under != nil {
			under = c.under(counted)
		}
		r, err := repo.Open(t.Context(), under, c.opt)
		if c.mistaken {
			require.ErrorIs(t, err, repo.ErrWrongKey, c.what)
			require.ErrorContains(t, err, `passphrase of "second"`, c.what)
		} else {
			require.NoError(t, err, c.what)
			unread := 0
			for _, slot := range r.FoundSlots() {
				if slot.Unread() {
					unread++
				}
			}
			require.Equal(t, c.unread, unread, c.what)
			require.Len(t, r.FoundSlots(), 2, c.what)
			require.NoError(t, r.Close())
		}
		require.Equal(t, c.read, counted.Matched(), c.what)
	}
}

// near is a store whose requests take no round trip.
type near struct{ store.Store }

func (near) EndsWithProcess() bool { return true }
