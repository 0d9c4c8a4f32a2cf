package retry_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/mem"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/test/faultstore"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

var (
	name   = store.Name{Kind: store.Pack, ID: "ab"}
	policy = retry.Policy{Attempts: 5, First: time.Second, Max: 3 * time.Second}
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return retry.Wrap(mem.New(), retry.DefaultPolicy()) })
}

// operations are all ways to use a store, on a file that is there.
func operations(ctx context.Context, st store.Store) map[string]func() error {
	return map[string]func() error{
		"put": func() error { return st.Put(ctx, name, []byte("x")) },
		"get": func() error { return st.Get(ctx, name, 0, make([]byte, 1)) },
		"put new": func() error {
			_, err := st.PutNew(ctx, store.Name{Kind: store.Lease, ID: "1"}, []byte("x"))
			return err
		},
		"fence": func() error { return st.Fence(ctx, store.Name{Kind: store.Lease, ID: "2"}) },
		"stat":  func() error { _, err := st.Stat(ctx, name); return err },
		"list": func() error {
			n := 0
			for _, err := range st.List(ctx, store.Pack) {
				if err != nil {
					return err
				}
				n++
			}
			if n != 1 {
				return fmt.Errorf("%d files listed", n)
			}
			return nil
		},
		"delete": func() error { return st.Delete(ctx, name) },
	}
}

// failing fails the first n operations.
type failing struct {
	store.Store
	fault error
	left  int
	calls int
}

func (f *failing) fail() error {
	f.calls++
	if f.left > 0 {
		f.left--
		return fmt.Errorf("wrapped: %w", f.fault)
	}
	return nil
}

func (f *failing) Put(ctx context.Context, n store.Name, p []byte) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Put(ctx, n, p)
}

func (f *failing) PutNew(ctx context.Context, n store.Name, p []byte) (store.Info, error) {
	if err := f.fail(); err != nil {
		return store.Info{}, err
	}
	return f.Store.PutNew(ctx, n, p)
}

func (f *failing) Fence(ctx context.Context, n store.Name) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Fence(ctx, n)
}

func (f *failing) Get(ctx context.Context, n store.Name, off int64, p []byte) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Get(ctx, n, off, p)
}

func (f *failing) Stat(ctx context.Context, n store.Name) (store.Info, error) {
	if err := f.fail(); err != nil {
		return store.Info{}, err
	}
	return f.Store.Stat(ctx, n)
}

func (f *failing) List(ctx context.Context, k store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		if err := f.fail(); err != nil {
			yield(store.Info{}, err)
			return
		}
		f.Store.List(ctx, k)(yield)
	}
}

func (f *failing) Delete(ctx context.Context, n store.Name) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Store.Delete(ctx, n)
}

func newFailing(t *testing.T, fault error, n int) *failing {
	inner := mem.New()
	require.NoError(t, inner.Put(t.Context(), name, []byte("x")))
	return &failing{Store: inner, fault: fault, left: n}
}

func TestTemporaryFailuresPass(t *testing.T) {
	for op := range operations(t.Context(), nil) {
		synctest.Test(t, func(t *testing.T) {
			f := newFailing(t, store.ErrTemporary, 4)
			p := policy
			p.Max = time.Hour
			reported := 0
			p.Notify = func(what string, err error) {
				require.Contains(t, what, op)
				require.ErrorIs(t, err, store.ErrTemporary)
				reported++
			}
			start := time.Now()
			require.NoError(t, operations(t.Context(), retry.Wrap(f, p))[op](), op)
			require.Equal(t, 5, f.calls, op)
			require.Equal(t, 1, reported)
			const sum = (1 + 2 + 4 + 8) * time.Second // each half as long to one and a half times as long
			require.GreaterOrEqual(t, time.Since(start), sum/2)
			require.Less(t, time.Since(start), sum*3/2)
		})
	}
}

// outage is a store that fails until a moment.
type outage struct {
	store.Store
	until time.Time
}

func (o *outage) Get(ctx context.Context, n store.Name, off int64, p []byte) error {
	if time.Now().Before(o.until) {
		return fmt.Errorf("get %s: %w", n.Path(), store.ErrTemporary)
	}
	return o.Store.Get(ctx, n, off, p)
}

// TestOutageIsReportedOnce: concurrent operations report one outage, and its end, once.
func TestOutageIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New()
		var mu sync.Mutex
		reported, back := 0, 0
		p := retry.Policy{
			Attempts: 100, First: time.Second, Max: 3 * time.Second,
			Notify: func(string, error) { mu.Lock(); defer mu.Unlock(); reported++ },
			Back:   func() { mu.Lock(); defer mu.Unlock(); back++ },
		}
		down := &outage{Store: inner}
		st := retry.Wrap(down, p)
		for round := 1; round <= 2; round++ {
			down.until = time.Now().Add(2 * time.Minute)
			var all sync.WaitGroup
			for i := range 64 {
				one := store.Name{Kind: store.Pack, ID: fmt.Sprintf("%02x", i)}
				require.NoError(t, inner.Put(t.Context(), one, []byte("x")))
				all.Go(func() { assert.NoError(t, st.Get(t.Context(), one, 0, make([]byte, 1))) })
			}
			all.Wait()
			require.Equal(t, round, reported)
			require.Equal(t, round, back)
		}
		require.NoError(t, st.Get(t.Context(), store.Name{Kind: store.Pack, ID: "00"}, 0, make([]byte, 1)))
		require.Equal(t, 2, back)
	})
}

// TestEndOfOutageAfterGivenUpWaits: the end is also reported after waits that were cancelled.
func TestEndOfOutageAfterGivenUpWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported, back := 0, 0
		f := newFailing(t, store.ErrTemporary, 6)
		st := retry.Wrap(f, retry.Policy{
			Attempts: 3, First: time.Second, Max: time.Second,
			Notify: func(string, error) { reported++ }, Back: func() { back++ },
		})
		for range 2 {
			require.ErrorIs(t, st.Get(t.Context(), name, 0, make([]byte, 1)), store.ErrTemporary)
		}
		require.Equal(t, 1, reported)
		require.Zero(t, back)
		require.NoError(t, st.Get(t.Context(), name, 0, make([]byte, 1)))
		require.Equal(t, 1, back)
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	for op := range operations(t.Context(), nil) {
		synctest.Test(t, func(t *testing.T) {
			f := newFailing(t, store.ErrTemporary, 100)
			require.ErrorIs(t, operations(t.Context(), retry.Wrap(f, policy))[op](), store.ErrTemporary, op)
			require.Equal(t, policy.Attempts, f.calls, op)
		})
	}
}

func TestOtherFailuresAreFinal(t *testing.T) {
	faults := []error{errors.New("any"), store.ErrNotExist, store.ErrShort, store.ErrName, store.ErrGone}
	for _, final := range []error{
		store.ErrNotExist, store.ErrDenied, store.ErrNoSpace, store.ErrShort,
	} {
		faults = append(faults, fmt.Errorf("%w: %w", store.ErrTemporary, final))
	}
	for _, fault := range faults {
		for op := range operations(t.Context(), nil) {
			f := newFailing(t, fault, 1)
			require.ErrorIs(t, operations(t.Context(), retry.Wrap(f, policy))[op](), fault)
			require.Equal(t, 1, f.calls, "%s: %v", op, fault)
		}
	}
}

// TestATimeoutIsTriedAgain: the error of a connection that timed out is context.DeadlineExceeded, as is that of a
// caller whose time is up. Only the latter is final.
func TestATimeoutIsTriedAgain(t *testing.T) {
	dial := net.Dialer{Deadline: time.Unix(1, 0)}
	_, late := dial.DialContext(t.Context(), "tcp", "127.0.0.1:9")
	require.ErrorIs(t, late, context.DeadlineExceeded)
	fault := fmt.Errorf("%w: %w", store.ErrTemporary, late)
	for op := range operations(t.Context(), nil) {
		synctest.Test(t, func(t *testing.T) {
			f := newFailing(t, fault, 1)
			require.NoError(t, operations(t.Context(), retry.Wrap(f, policy))[op](), op)
			require.Equal(t, 2, f.calls, op)
			over, cancel := context.WithDeadline(t.Context(), time.Now())
			defer cancel()
			f = newFailing(t, fault, 1)
			require.ErrorIs(t, operations(over, retry.Wrap(f, policy))[op](), late, op)
			require.Equal(t, 1, f.calls, op)
		})
	}
}

func TestCancelEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := retry.Policy{Attempts: 9, First: time.Hour, Notify: func(string, error) { cancel(cause) }}
		f := newFailing(t, store.ErrTemporary, 9)
		start := time.Now()
		err := retry.Wrap(f, p).Put(ctx, name, nil)
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, store.ErrTemporary, "what it waited for is reported as well")
		require.Zero(t, time.Since(start))
		require.Equal(t, 1, f.calls)
	})
}

func TestDeleteWhoseAnswerWasLost(t *testing.T) {
	inner := mem.New()
	require.NoError(t, inner.Put(t.Context(), name, nil))
	plan := faultstore.Plan{At: 1, Ops: faultstore.Delete, Effect: faultstore.Unsure, Err: store.ErrTemporary}
	st := retry.Wrap(faultstore.Wrap(inner, plan), retry.Policy{Attempts: 2})
	require.NoError(t, st.Delete(t.Context(), name))
	require.ErrorIs(t, st.Delete(t.Context(), name), store.ErrNotExist)
}

// TestAListThatBreaksOffContinues: each file is yielded once, wherever a list breaks off, and however often.
func TestAListThatBreaksOffContinues(t *testing.T) {
	inner := mem.New()
	var all []string
	for i := range 20 {
		id := fmt.Sprintf("%064x", i)
		all = append(all, id)
		require.NoError(t, inner.Put(t.Context(), store.Name{Kind: store.Pack, ID: id}, nil))
	}
	for breaks := range 4 {
		st := &breakingOff{Store: inner, left: breaks}
		var got []string
		for info, err := range retry.Wrap(st, retry.Policy{Attempts: 4}).List(t.Context(), store.Pack) {
			require.NoError(t, err)
			got = append(got, info.Name.ID)
		}
		require.ElementsMatch(t, all, got, breaks)
		require.Zero(t, st.left)
	}
	failed, st := false, &breakingOff{Store: inner, left: 9}
	for _, err := range retry.Wrap(st, retry.Policy{Attempts: 4}).List(t.Context(), store.Pack) {
		failed = failed || errors.Is(err, store.ErrTemporary)
	}
	require.True(t, failed, "a part of a list passed for a whole one")
}

// breakingOff is a store whose lists break off after some files, in another order each time.
type breakingOff struct {
	store.Store
	left int
}

func (s *breakingOff) List(ctx context.Context, kind store.Kind) iter.Seq2[store.Info, error] {
	return func(yield func(store.Info, error) bool) {
		var all []store.Info
		for info, err := range s.Store.List(ctx, kind) {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if s.left > 0 {
			s.left--
			all = append(all[:rand.IntN(len(all))], store.Info{})
		}
		for _, info := range all {
			var err error
			if info.Name.ID == "" {
				err = store.ErrTemporary
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

func TestZeroPolicyTriesOnce(t *testing.T) {
	f := newFailing(t, store.ErrTemporary, 1)
	require.ErrorIs(t, retry.Wrap(f, retry.Policy{}).Put(t.Context(), name, nil), store.ErrTemporary)
	require.Equal(t, 1, f.calls)
}
