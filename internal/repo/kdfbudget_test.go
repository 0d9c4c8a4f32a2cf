package repo_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
)

// forge stores a slot of another master key: anyone with write access to the store can.
func forge(t *testing.T, st store.Store, params keyfile.Params, label string) string {
	t.Helper()
	master := seal.NewMasterKey()
	slot, err := keyfile.Wrap(master, keyfile.Passphrase, []byte("not yours"),
		keyfile.Params{Time: 1, MemoryKiB: 8, Threads: 1}, label, 1)
	require.NoError(t, err)
	slot.Params = params // what is not authenticated before it was derived
	raw := keyfile.Encode(slot)
	id := seal.FileID(raw)
	require.NoError(t, st.Put(t.Context(), store.Name{Kind: store.Key, ID: id.String()}, raw))
	return id.Short()
}

func made(t *testing.T) store.Store {
	t.Helper()
	st := mem.New()
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{Secrets: []repo.Secret{passphrase("p")}, Params: quick})
	require.NoError(t, err)
	return st
}

// TestForgedSlots: slots that demand hours of work, or all memory, block no other slot, and the error names them. Each
// of these would take a minute or more: the test ends in time only if none is tried.
func TestForgedSlots(t *testing.T) {
	long := keyfile.Params{Time: 1 << 10, MemoryKiB: 64 << 10, Threads: 1}
	large := keyfile.Params{Time: 16, MemoryKiB: 4 << 20, Threads: 1}
	st := made(t)
	var named []string
	for i := range 4 {
		named = append(named, forge(t, st, long, fmt.Sprint(i)), forge(t, st, large, fmt.Sprint(i)))
	}
	openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	_, err := repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("wrong"))})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	require.ErrorContains(t, err, "key slots that were not tried: ")
	require.ErrorContains(t, err, "and 5 more") // which three are shown depends on their IDs
	require.True(t, slices.ContainsFunc(named, func(id string) bool { return strings.Contains(err.Error(), id) }), err)

	slow := made(t)
	forge(t, slow, long, "x")
	_, err = repo.Open(t.Context(), slow, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("wrong"))})
	require.ErrorContains(t, err, "its 1024 passes over 64 MiB would take too long")

	only := made(t)
	forge(t, only, large, "x")
	_, err = repo.Open(t.Context(), only, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("wrong"))})
	require.ErrorContains(t, err, "it asks for 4096 MiB of memory, at most 256 MiB are given")
	r := openWith(t, only, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	_, err = r.AddSlot(t.Context(), passphrase("second"), "test", quick) // looks whether it opens one already
	require.NoError(t, err)
}

// TestWorkOfAllSlotsIsBounded: many slots, each with little work. Without a bound on their sum all would be tried.
func TestWorkOfAllSlotsIsBounded(t *testing.T) {
	testkit.Slow(t)
	st := made(t)
	for i := range 20 {
		forge(t, st, keyfile.Params{Time: 4, MemoryKiB: 64 << 10, Threads: 4}, fmt.Sprint(i)) // 12 of them are 3 GiB
	}
	_, err := repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("wrong"))})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	require.ErrorContains(t, err, "and 6 more") // 20 less 11, since the good one was tried first, less 3 that are named
}

// TestKnownSlot: what opened the repository before is tried whatever it takes, before all others of its kind.
func TestKnownSlot(t *testing.T) {
	testkit.Slow(t)
	st := made(t)
	r := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	dear := keyfile.Params{Time: 1, MemoryKiB: 257 << 10, Threads: 4}
	id, err := r.AddSlot(t.Context(), passphrase("dear"), "test", dear)
	require.NoError(t, err)
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("dear"))})
	require.ErrorContains(t, err, id.Short()+" (it asks for 257 MiB of memory")
	var asked []uint32
	again := openWith(t, st, repo.OpenOptions{ByID: func(known string, opt *repo.OpenOptions) error {
		require.Equal(t, r.ID(), known)
		opt.KnownSlot, opt.Unlock = id.String(), func(s *keyfile.Slot) ([]byte, error) {
			asked = append(asked, s.Params.MemoryKiB)
			return []byte("dear"), nil
		}
		return nil
	}})
	require.Equal(t, []uint32{257 << 10}, asked)
	require.Equal(t, id.String(), again.SlotID())
}

// TestTooManySlots: only so many are read, the known one among them.
func TestTooManySlots(t *testing.T) {
	testkit.Slow(t)
	st := made(t)
	r := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	for i := range 300 {
		forge(t, st, quick, fmt.Sprint(i))
	}
	openWith(t, st, repo.OpenOptions{ByID: func(_ string, opt *repo.OpenOptions) error {
		opt.KnownSlot, opt.Unlock = r.SlotID(), stored.UnlockWith(passphrase("p"))
		return nil
	}})
	_, err := repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("wrong"))})
	require.ErrorContains(t, err, "no more than 256 are read")
}
