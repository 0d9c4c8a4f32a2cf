package repo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/chunker"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

func TestInitAndOpen(t *testing.T) {
	st := mem.New()
	r, key, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{passphrase("open sesame"), machineKey()}, Recovery: true, Label: "me@here", Params: quick,
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	require.NotEmpty(t, key)
	require.Len(t, r.ID(), 32)
	require.Len(t, names(t, st, store.Key), 3)

	recovery, err := keyfile.ParseRecoveryKey(strings.ToLower(key))
	require.NoError(t, err)
	for name, secret := range map[string]repo.Secret{
		"passphrase": passphrase("open sesame"),
		"key file":   machineKey(),
		"recovery":   {Method: keyfile.Recovery, Value: recovery},
	} {
		again := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(secret)})
		require.Equal(t, r.ID(), again.ID(), name)
		require.Equal(t, uint32(64<<10), again.Config().Chunker.Avg)
		blob := []byte("the same key gives the same IDs")
		require.Equal(t, r.Keys().Hasher().ID(blob), again.Keys().Hasher().ID(blob))
	}
}

func TestTheSameKeyIsNotAddedTwice(t *testing.T) { synctest.Test(t, theSameKeyIsNotAddedTwice) }

func theSameKeyIsNotAddedTwice(t *testing.T) {
	st := mem.New()
	// An interrupted Init leaves the same secret for another master key. It opens nothing and blocks nothing.
	other := mem.New()
	_, _, err := repo.Init(t.Context(), other, repo.InitOptions{
		Secrets: []repo.Secret{passphrase("second")}, Params: quick,
	})
	require.NoError(t, err)
	for _, name := range names(t, other, store.Key) {
		require.NoError(t, st.Put(t.Context(), name, bytesOf(t, other, name)))
	}
	r := initialise(t, st)
	first, err := r.AddSlot(t.Context(), passphrase("second"), "me@here", quick)
	require.NoError(t, err)
	before := names(t, st, store.Key)
	_, err = r.AddSlot(t.Context(), passphrase("second"), "me@here", quick)
	require.ErrorIs(t, err, repo.ErrKeyExists)
	require.ErrorContains(t, err, first.Short())
	_, err = r.AddSlot(t.Context(), machineKey(), "me@here", quick)
	require.ErrorIs(t, err, repo.ErrKeyExists)
	require.ElementsMatch(t, before, names(t, st, store.Key))
	require.NoError(t, r.CheckNew(t.Context(), passphrase("third")))
}

// A repository that has lost its config must not look like a place for a new one.
func TestLostConfigIsDamage(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	config := store.Name{Kind: store.Config}
	raw := bytesOf(t, st, config)
	require.NoError(t, st.Delete(t.Context(), config))
	_, err := repo.Open(t.Context(), st, repo.OpenOptions{})
	require.ErrorIs(t, err, repo.ErrNoRepository, "key slots alone are left by an interrupted Init, which can be repeated")
	require.NoError(t, st.Put(t.Context(), config, raw))
	mustBackUp(t, r, blobs(1, 3))
	require.NoError(t, st.Delete(t.Context(), config))
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{})
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.NotErrorIs(t, err, repo.ErrNoRepository)
	require.ErrorContains(t, err, "put the file config back from a copy")

	require.NoError(t, st.Put(t.Context(), config, raw[:len(raw)/2]))
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{})
	require.ErrorIs(t, err, format.ErrCorrupt)
	require.ErrorContains(t, err, "put the file config back from a copy")
}

// TestADeletedSlotLeavesOtherKeys: the slot of a passphrase is gone, and the error names the keys that open the
// repository.
func TestADeletedSlotLeavesOtherKeys(t *testing.T) {
	st := mem.New()
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{machineKey(), passphrase("p")}, Params: quick, Recovery: true, Label: "me",
	})
	require.NoError(t, err)
	slots, err := fresh(t, st).Slots(t.Context())
	require.NoError(t, err)
	for _, s := range slots {
		if s.Slot.Method == keyfile.Passphrase {
			require.NoError(t, st.Delete(t.Context(), store.Name{Kind: store.Key, ID: s.ID.String()}))
		}
	}
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	require.ErrorContains(t, err, `give one of the keys that it has: key file of "me", recovery key`)
}

func TestInitWritesConfigLast(t *testing.T) {
	rec := &recorder{Store: mem.New()}
	_, _, err := repo.Init(t.Context(), rec, repo.InitOptions{
		Secrets: []repo.Secret{machineKey()}, Recovery: true,
	})
	require.NoError(t, err)
	require.Len(t, rec.puts, 3)
	require.Equal(t, store.Config, rec.puts[2].Kind)
}

func TestInitRefuses(t *testing.T) {
	st := mem.New()
	initialise(t, st)
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{Secrets: []repo.Secret{machineKey()}})
	require.ErrorIs(t, err, repo.ErrExists)

	_, _, err = repo.Init(t.Context(), mem.New(), repo.InitOptions{})
	require.ErrorContains(t, err, "could not be opened")

	empty := mem.New()
	_, _, err = repo.Init(t.Context(), empty,
		repo.InitOptions{Secrets: []repo.Secret{machineKey()}, Chunks: chunker.Params{Min: 2, Avg: 1, Max: 3}})
	require.ErrorContains(t, err, "chunker")
	require.Empty(t, names(t, empty, store.Config), "nothing that could not be opened")

	// Init must not overwrite a repository that lost its config.
	r := initialise(t, mem.New())
	mustBackUp(t, r, blobs(1, 4))
	require.NoError(t, r.Store().Delete(t.Context(), store.Name{Kind: store.Config}))
	_, _, err = repo.Init(t.Context(), r.Store(), repo.InitOptions{Secrets: []repo.Secret{machineKey()}})
	require.ErrorIs(t, err, repo.ErrExists)
	require.ErrorContains(t, err, "config is missing")
}

// Whichever operation of Init fails, the error is reported. Init can be repeated with the same passphrase, although its
// older slot belongs to another master key.
func TestInitIsRepeatableAfterAnyFault(t *testing.T) { synctest.Test(t, initIsRepeatableAfterAnyFault) }

func initIsRepeatableAfterAnyFault(t *testing.T) {
	opt := repo.InitOptions{Secrets: []repo.Secret{passphrase("p")}, Recovery: true, Params: quick}
	for i := 1; ; i++ {
		st := mem.New()
		f := faultstore.Wrap(st, faultstore.Plan{At: i, Effect: faultstore.Refuse})
		_, _, err := repo.Init(t.Context(), f, opt)
		if !f.Fired() {
			require.NoError(t, err)
			require.Greater(t, i, 8)
			return
		}
		require.ErrorIs(t, err, faultstore.ErrInjected)
		if _, err := st.Stat(t.Context(), store.Name{Kind: store.Config}); err == nil {
			continue // only the reading back failed: the repository exists, and Init would say so
		}
		r, _, err := repo.Init(t.Context(), st, opt)
		require.NoError(t, err)
		require.Equal(t, r.ID(), openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))}).ID())
	}
}

func TestOpenErrors(t *testing.T) {
	_, err := repo.Open(t.Context(), mem.New(), repo.OpenOptions{Unlock: stored.UnlockWith(machineKey())})
	require.ErrorIs(t, err, repo.ErrNoRepository)

	st := mem.New()
	_, _, err = repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{passphrase("right")}, Params: quick,
	})
	require.NoError(t, err)
	for name, unlock := range map[string]func(*keyfile.Slot) ([]byte, error){
		"wrong passphrase": stored.UnlockWith(passphrase("wrong")),
		"other method":     stored.UnlockWith(machineKey()),
		"nothing":          stored.UnlockWith(),
		"no prompt":        nil,
	} {
		_, err := repo.Open(t.Context(), st, repo.OpenOptions{Unlock: unlock})
		require.ErrorIs(t, err, repo.ErrWrongKey, name)
		require.NotErrorIs(t, err, format.ErrCorrupt, name)
	}

	config := store.Name{Kind: store.Config}
	good := bytesOf(t, st, config)
	newer := append([]byte(nil), good...)
	newer[8]++
	require.NoError(t, st.Put(t.Context(), config, newer))
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("right"))})
	require.ErrorIs(t, err, format.ErrUnsupported)
	require.ErrorContains(t, err, "the file config is damaged")

	require.NoError(t, st.Put(t.Context(), config, good))
	for _, name := range names(t, st, store.Key) {
		require.NoError(t, st.Delete(t.Context(), name))
	}
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("right"))})
	require.ErrorContains(t, err, "key slots are missing")
}

func TestOpenAsksOnlyForSlotsThereAre(t *testing.T) {
	st := mem.New()
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{passphrase("p"), machineKey()}, Params: quick, Recovery: true,
	})
	require.NoError(t, err)
	var asked []keyfile.Method
	openWith(t, st, repo.OpenOptions{Unlock: func(s *keyfile.Slot) ([]byte, error) {
		asked = append(asked, s.Method)
		return stored.UnlockWith(passphrase("p"))(s)
	}})
	require.Equal(t, []keyfile.Method{keyfile.KeyFile, keyfile.Recovery, keyfile.Passphrase}, asked)
}

func TestDamagedSlotHidesNoOther(t *testing.T) {
	st := mem.New()
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{
		Secrets: []repo.Secret{machineKey(), passphrase("p")}, Params: quick,
	})
	require.NoError(t, err)
	r := fresh(t, st)
	slots, err := r.Slots(t.Context())
	require.NoError(t, err)
	var damaged string
	for _, s := range slots {
		if s.Slot.Method == keyfile.KeyFile {
			damaged = s.ID.String()
			name := store.Name{Kind: store.Key, ID: damaged}
			require.NoError(t, st.Put(t.Context(), name, bytesOf(t, st, name)[:40]))
		}
	}
	openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("p"))})
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey())})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	require.ErrorIs(t, err, format.ErrCorrupt, "the damage is reported too: it may be the cause")
	require.ErrorContains(t, err, "put the file keys/"+damaged+" back")

	none := errors.New("there is no terminal to ask for another key")
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: func(*keyfile.Slot) ([]byte, error) { return nil, none }})
	require.ErrorIs(t, err, none)
	require.ErrorContains(t, err, "put the file keys/"+damaged+" back", "it may be the key of this machine")

	slots, err = r.Slots(t.Context())
	require.NoError(t, err)
	require.Len(t, slots, 2)
	require.NotNil(t, slots[0].Slot)
	require.ErrorIs(t, slots[1].Err, format.ErrCorrupt)
}

// A target that is gone proves nothing about the slots: the list must not show all as broken.
func TestSlotsOnATargetThatIsGone(t *testing.T) {
	for _, why := range []error{store.ErrGone, store.ErrTemporary} {
		st := mem.New()
		r := initialise(t, st)
		_, err := r.AddSlot(t.Context(), passphrase("second"), "second", quick)
		require.NoError(t, err)
		for at := 1; at <= 2; at++ {
			// Opening reads one slot or both; what is wrapped here fails only afterwards.
			inner := &switchable{Store: st}
			other := fresh(t, inner)
			faulty := faultstore.Wrap(st, faultstore.Plan{At: at, Ops: faultstore.Get, Kind: store.Key, Sticky: true, Err: why})
			inner.Store = faulty
			slots, err := other.Slots(t.Context())
			require.True(t, faulty.Fired())
			require.ErrorIs(t, err, why)
			require.Empty(t, slots)
			_, err = other.Removable(t.Context(), "0")
			require.ErrorIs(t, err, why)
		}
	}
	// Anything else concerns that slot alone.
	st := mem.New()
	inner := &switchable{Store: st}
	initialise(t, st)
	other := fresh(t, inner)
	inner.Store = faultstore.Wrap(st, faultstore.Plan{At: 1, Ops: faultstore.Get, Kind: store.Key})
	slots, err := other.Slots(t.Context())
	require.NoError(t, err)
	require.Len(t, slots, 1)
	require.ErrorIs(t, slots[0].Err, faultstore.ErrInjected)
}

// switchable is a store that becomes another one.
type switchable struct{ store.Store }

func TestSlots(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	ctx := t.Context()
	slots, err := r.Slots(ctx)
	require.NoError(t, err)
	require.Len(t, slots, 1)
	require.True(t, slots[0].Current)
	_, err = r.RemoveSlot(ctx, slots[0].ID.Short())
	require.ErrorIs(t, err, repo.ErrLastKey)

	added, err := r.AddSlot(ctx, passphrase("second"), "me@here", quick)
	require.NoError(t, err)
	_, err = r.RemoveSlot(ctx, slots[0].ID.Short())
	require.ErrorIs(t, err, repo.ErrKeyInUse)
	_, err = r.RemoveSlot(ctx, "ffffffffffffffffff")
	require.ErrorIs(t, err, repo.ErrNoKey)
	_, err = r.RemoveSlot(ctx, "")
	require.ErrorIs(t, err, repo.ErrNoKey)

	other := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("second"))})
	require.Equal(t, r.ID(), other.ID())
	removed, err := other.RemoveSlot(ctx, slots[0].ID.String())
	require.NoError(t, err)
	require.Equal(t, slots[0].ID, removed)
	_, err = repo.Open(ctx, st, repo.OpenOptions{Unlock: stored.UnlockWith(machineKey())})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	slots, err = other.Slots(ctx)
	require.NoError(t, err)
	require.Len(t, slots, 1)
	require.Equal(t, added, slots[0].ID)
	require.Equal(t, "me@here", slots[0].Slot.Label)
}

func TestRenewRecoveryKey(t *testing.T) {
	st := mem.New()
	_, key, err := repo.Init(t.Context(), st, repo.InitOptions{Recovery: true})
	require.NoError(t, err)
	old, err := keyfile.ParseRecoveryKey(key)
	require.NoError(t, err)
	unlock := stored.UnlockWith(repo.Secret{Method: keyfile.Recovery, Value: old})
	r := openWith(t, st, repo.OpenOptions{Unlock: unlock})
	text, err := r.RenewRecoveryKey(t.Context(), "me@here")
	require.NoError(t, err)
	_, err = repo.Open(t.Context(), st, repo.OpenOptions{Unlock: unlock})
	require.ErrorIs(t, err, repo.ErrWrongKey)
	renewed, err := keyfile.ParseRecoveryKey(text)
	require.NoError(t, err)
	unlock = stored.UnlockWith(repo.Secret{Method: keyfile.Recovery, Value: renewed})
	require.Equal(t, r.ID(), openWith(t, st, repo.OpenOptions{Unlock: unlock}).ID())
	slots, err := r.Slots(t.Context())
	require.NoError(t, err)
	require.Len(t, slots, 1)
	require.True(t, slots[0].Current)
}

// rival makes a repository between the moment at which another program looks and the moment at which it writes.
type rival struct {
	store.Store
	config []byte
}

func (r *rival) Put(ctx context.Context, name store.Name, data []byte) error {
	if name.Kind == store.Config {
		data = r.config // ours was there for a moment, and then theirs
	}
	return r.Store.Put(ctx, name, data)
}

func TestTwoInitsAtOnce(t *testing.T) {
	first := mem.New()
	initialise(t, first)
	st := &rival{mem.New(), bytesOf(t, first, store.Name{Kind: store.Config})}
	_, _, err := repo.Init(t.Context(), st, repo.InitOptions{Secrets: []repo.Secret{machineKey()}})
	require.ErrorIs(t, err, repo.ErrExists)
}

// TestManyInitsAtOnce: of several programs that make a repository in the same place, exactly one succeeds, whatever
// comes between their steps. Its repository can be opened. The others report that it exists, and leave no keys.
func TestManyInitsAtOnce(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			inner := mem.New()
			errs := make([]error, 2+seed%3)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() {
					st := &slow{inner, rand.New(rand.NewPCG(seed, uint64(i)))}
					_, _, errs[i] = repo.Init(t.Context(), st, repo.InitOptions{
						Secrets: []repo.Secret{passphrase(fmt.Sprint(i)),
							{Method: keyfile.KeyFile, Value: bytes.Repeat([]byte{byte(i)}, 32)}},
						Params: quick,
					})
				})
			}
			all.Wait()
			made := 0
			for i, err := range errs {
				if err != nil {
					require.ErrorIs(t, err, repo.ErrExists, "seed %d", seed)
					continue
				}
				made++
				openWith(t, inner, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase(fmt.Sprint(i)))})
			}
			require.Equal(t, 1, made, "seed %d", seed)
			require.Len(t, names(t, inner, store.Key), 2, "seed %d", seed)
		})
	}
}

// slow is a store that takes its time, a little or up to half a second.
type slow struct {
	store.Store
	r *rand.Rand
}

func (s *slow) pause() { time.Sleep(time.Duration(s.r.Int64N(1 << s.r.IntN(30)))) }

func (s *slow) Put(ctx context.Context, name store.Name, data []byte) error {
	s.pause()
	return s.Store.Put(ctx, name, data)
}

func (s *slow) Stat(ctx context.Context, name store.Name) (store.Info, error) {
	s.pause()
	return s.Store.Stat(ctx, name)
}

func (s *slow) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	s.pause()
	return s.Store.List(ctx, kind)
}

// meanwhile is a store on which something happens once, before a file of a kind is put or removed.
type meanwhile struct {
	store.Store
	kind        store.Kind
	put, remove func()
}

func (m *meanwhile) Put(ctx context.Context, name store.Name, data []byte) error {
	if do := m.put; do != nil && name.Kind == m.kind {
		m.put = nil
		do()
	}
	return m.Store.Put(ctx, name, data)
}

func (m *meanwhile) Delete(ctx context.Context, name store.Name) error {
	if do := m.remove; do != nil && name.Kind == m.kind {
		m.remove = nil
		do()
	}
	return m.Store.Delete(ctx, name)
}

// TestInitOverwritesNothing: a repository that another program made while this one made its keys stays unchanged.
func TestInitOverwritesNothing(t *testing.T) {
	st := mem.New()
	inner := &meanwhile{Store: st, kind: store.Key}
	var theirs *repo.Repository
	inner.put = func() { theirs = initialise(t, st) }
	_, _, err := repo.Init(t.Context(), inner, repo.InitOptions{Secrets: []repo.Secret{passphrase("p")}, Params: quick})
	require.ErrorIs(t, err, repo.ErrExists)
	require.Equal(t, theirs.ID(), fresh(t, st).ID())
}

// TestTwoProgramsRemoveEachOthersKey: whatever comes between the steps of one, a key is left that opens the repository.
func TestTwoProgramsRemoveEachOthersKey(t *testing.T) {
	st := mem.New()
	r := initialise(t, st)
	first, err := r.Slots(t.Context())
	require.NoError(t, err)
	second, err := r.AddSlot(t.Context(), passphrase("second"), "me@here", quick)
	require.NoError(t, err)
	inner := &meanwhile{Store: st, kind: store.Key}
	mine := fresh(t, inner)
	other := openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("second"))})
	inner.remove = func() {
		_, err := other.RemoveSlot(t.Context(), first[0].ID.String())
		require.NoError(t, err)
	}
	_, err = mine.RemoveSlot(t.Context(), second.String())
	require.ErrorIs(t, err, repo.ErrKeyGone)
	require.ErrorContains(t, err, "put back")
	openWith(t, st, repo.OpenOptions{Unlock: stored.UnlockWith(passphrase("second"))})
}
