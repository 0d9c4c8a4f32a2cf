package s3_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/retry"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/test/s3test"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestErrorsSayWhatToDo(t *testing.T) {
	testkit.Slow(t)
	for code, c := range map[string]struct {
		fault s3test.Fault
		kind  error
		text  string
	}{
		"slow down":  {s3test.Fault{Status: 503, Code: "SlowDown"}, store.ErrTemporary, "lower --uploads"},
		"internal":   {s3test.Fault{Status: 500, Code: "InternalError"}, store.ErrTemporary, "wait a little"},
		"conflict":   {s3test.Fault{Status: 409, Code: "ConditionalRequestConflict"}, store.ErrTemporary, ""},
		"skew":       {s3test.Fault{Status: 403, Code: "RequestTimeTooSkewed"}, store.ErrDenied, "set the clock"},
		"expired":    {s3test.Fault{Status: 400, Code: "ExpiredToken"}, store.ErrDenied, "log on again"},
		"wrong keys": {s3test.Fault{Status: 403, Code: "InvalidAccessKeyId"}, store.ErrDenied, "AWS_ACCESS_KEY_ID"},
		"denied":     {s3test.Fault{Status: 403, Code: "AccessDenied"}, store.ErrDenied, "allow these keys"},
		"region": {s3test.Fault{Status: 301, Code: "PermanentRedirect", Region: "eu-west-9"}, store.ErrDenied,
			"--s3-region eu-west-9"},
		"no bucket":     {s3test.Fault{Status: 404, Code: "NoSuchBucket"}, store.ErrGone, "correct its name"},
		"archived":      {s3test.Fault{Status: 403, Code: "InvalidObjectState"}, store.ErrDenied, "from the archive"},
		"full":          {s3test.Fault{Status: 507, Code: "QuotaExceeded"}, store.ErrNoSpace, "tidemark forget --repo s3://"},
		"unconditional": {s3test.Fault{Status: 501, Code: "NotImplemented"}, nil, "conditional writes"},
	} {
		t.Run(code, func(t *testing.T) {
			f := s3test.NewFake(t)
			st := onFake(t, f)
			f.Faults(func(*http.Request) s3test.Fault { return c.fault })
			name := storetest.Names()[3]
			_, statErr := st.Stat(t.Context(), name)
			_, newErr := st.PutNew(t.Context(), name, []byte("x"))
			for what, err := range map[string]error{
				"put": st.Put(t.Context(), name, []byte("x")), "put new": newErr, "stat": statErr,
				"get": st.Get(t.Context(), name, 0, make([]byte, 1)), "delete": st.Delete(t.Context(), name),
			} {
				if (what == "stat" || what == "delete") && c.fault.Status == 404 {
					continue // a HEAD does not say whether the bucket is missing
				}
				require.Error(t, err, what)
				require.ErrorContains(t, err, c.text, what)
				if c.kind != nil {
					require.ErrorIs(t, err, c.kind, what)
				}
			}
			require.NotContains(t, newErr.Error(), s3test.Secret)
		})
	}
}

func TestAMissingBucketIsNoMissingRepository(t *testing.T) {
	f := s3test.NewFake(t)
	at := s3.Target{Endpoint: f.Addr, Bucket: "other"}
	_, err := s3.Create(t.Context(), at, s3.Options{Keys: keys(), Plain: true})
	require.ErrorContains(t, err, "there is no bucket other")
	st, err := s3.Open(t.Context(), at, s3.Options{Keys: keys(), Plain: true})
	require.NoError(t, err)
	_, err = st.Stat(t.Context(), store.Name{Kind: store.Config})
	require.ErrorIs(t, err, store.ErrGone)
	require.NotErrorIs(t, err, store.ErrNotExist)
}

func TestAServerThatIsNotThereIsReportedAtOnce(t *testing.T) {
	_, err := s3.Create(t.Context(), s3.Target{Endpoint: "127.0.0.1:1", Bucket: "backup"},
		s3.Options{Keys: keys(), Plain: true})
	require.ErrorIs(t, err, store.ErrGone)
	require.NotErrorIs(t, err, store.ErrTemporary)
	f := s3test.NewFake(t)
	_, err = s3.Create(t.Context(), s3.Target{Endpoint: f.Addr, Bucket: s3test.Bucket}, s3.Options{Keys: keys()})
	require.ErrorContains(t, err, "--s3-tls=no")
	server := s3test.Start(t)
	_, err = s3.Create(t.Context(), s3.Target{Endpoint: server.Addr, Bucket: s3test.Bucket}, s3.Options{Keys: keys()})
	require.ErrorContains(t, err, "--s3-ca")
}

// lose makes the answers to the next requests of a method get lost: the first number of them after they are executed.
func lose(f *s3test.Fake, method string, number int64, before bool) {
	var n atomic.Int64
	f.Faults(func(r *http.Request) s3test.Fault {
		cut := r.Method == method && n.Add(1) <= number
		fault := s3test.Fault{Cut: cut}
		if cut && before {
			fault.Status = http.StatusTeapot
		}
		return fault
	})
}

func TestALostAnswerIsReadBack(t *testing.T) {
	testkit.Slow(t)
	for _, before := range []bool{false, true} {
		f := s3test.NewFake(t)
		st := onFake(t, f)
		again := retry.Wrap(st, retry.Policy{Attempts: 3})
		for _, name := range storetest.Names() {
			lose(f, http.MethodPut, 1, before)
			_, err := again.PutNew(t.Context(), name, []byte("mine"))
			require.NoError(t, err, "%s", name)
			require.Positive(t, f.Served()[1], "it was read back")
			lose(f, http.MethodPut, 1, before)
			_, err = again.PutNew(t.Context(), name, []byte("mine"))
			require.ErrorIs(t, err, store.ErrExists, "%s: the same bytes of another put are not its own", name)
			lose(f, http.MethodPut, 1, before)
			require.NoError(t, again.Put(t.Context(), name, []byte("newer")))
			lose(f, http.MethodDelete, 1, before)
			require.NoError(t, again.Delete(t.Context(), name))
		}
		lease := store.Name{Kind: store.Lease, ID: "77"}
		lose(f, http.MethodPut, 1, before)
		require.NoError(t, again.Fence(t.Context(), lease))
		info, err := st.Stat(t.Context(), lease)
		require.NoError(t, err)
		require.True(t, info.Fence)
	}
}

// TestAPutNewWhoseReadBackFailsTooFindsItsOwn: nothing can be reached for a while after the put was executed.
func TestAPutNewWhoseReadBackFailsTooFindsItsOwn(t *testing.T) {
	f := s3test.NewFake(t)
	st := onFake(t, f)
	name := storetest.Names()[4]
	var n atomic.Int64
	f.Faults(func(*http.Request) s3test.Fault { return s3test.Fault{Cut: n.Add(1) <= 2} })
	_, err := st.PutNew(t.Context(), name, []byte("mine"))
	require.ErrorIs(t, err, store.ErrTemporary)
	_, err = st.PutNew(t.Context(), name, []byte("mine"))
	require.NoError(t, err)
	_, err = st.PutNew(t.Context(), name, []byte("mine"))
	require.ErrorIs(t, err, store.ErrExists)
}

func TestAnAnswerThatIsCutIsNoShortFile(t *testing.T) {
	f := s3test.NewFake(t)
	st := onFake(t, f)
	name := storetest.Names()[2]
	require.NoError(t, st.Put(t.Context(), name, storetest.Pattern(1<<20, 1)))
	f.Faults(func(*http.Request) s3test.Fault { return s3test.Fault{Half: true} })
	err := st.Get(t.Context(), name, 0, make([]byte, 1<<20))
	require.ErrorIs(t, err, store.ErrTemporary)
	require.NotErrorIs(t, err, store.ErrShort)
}

// TestANameThatIsTakenIsNoLostConnection: some servers refuse a put by ending the connection before they have read it.
func TestANameThatIsTakenIsNoLostConnection(t *testing.T) {
	testkit.Slow(t)
	f := s3test.NewFake(t)
	st := onFake(t, f)
	for _, name := range storetest.Names() {
		_, err := st.PutNew(t.Context(), name, []byte("first"))
		require.NoError(t, err)
		lose(f, http.MethodPut, 1, true)
		_, err = st.PutNew(t.Context(), name, []byte("second"))
		require.ErrorIs(t, err, store.ErrExists, "%s", name)
	}
}

func TestAListGoesOnAfterALostConnection(t *testing.T) {
	testkit.Slow(t)
	f := s3test.NewFake(t)
	f.Page = 10
	st := onFake(t, f)
	want := make(map[store.Name]bool)
	for i := range 35 {
		name := store.Name{Kind: store.Snapshot, ID: fmt.Sprintf("%04x", i)}
		want[name] = true
		require.NoError(t, st.Put(t.Context(), name, []byte("x")))
	}
	var n atomic.Int64
	f.Faults(func(r *http.Request) s3test.Fault {
		if k := n.Add(1); k == 2 || k == 4 {
			return s3test.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}
		}
		return s3test.Fault{}
	})
	for info, err := range st.List(t.Context(), store.Snapshot) {
		require.NoError(t, err)
		require.True(t, want[info.Name], "%s again", info.Name)
		delete(want, info.Name)
	}
	require.Empty(t, want)
	require.Greater(t, n.Load(), int64(5))
}
