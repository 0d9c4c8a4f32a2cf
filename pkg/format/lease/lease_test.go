package lease

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func sampleLease() *Lease {
	return &Lease{ID: ID{0xde, 0xad, 15: 1}, Host: "engine", PID: 4711, Started: 1_790_000_000, Heartbeat: 1_790_000_300}
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"id": tagID, "host": tagHost, "pid": tagPID, "started": tagStarted, "heartbeat": tagHeartbeat,
		"acknowledged": tagAcknowledged, "task": tagTask, "renewal": tagRenewal,
	}, spectest.Numbers(t, "SPEC.md", "Lease", "Field", "Tag"))
}

func TestGoldenLease(t *testing.T) {
	got, err := Decode(spectest.Golden(t, "lease", Encode(sampleLease())))
	require.NoError(t, err)
	require.Equal(t, sampleLease(), got)
}

// TestGoldenAcknowledging is a lease of a prune that obeys marks of others.
func TestGoldenAcknowledging(t *testing.T) {
	l := sampleLease()
	l.Acknowledged, l.Task, l.Renewal = []format.ID{{2}, {1}, {2}}, "prune", 0x1234
	got, err := Decode(spectest.Golden(t, "heeding", Encode(l)))
	require.NoError(t, err)
	l.Acknowledged = []format.ID{{1}, {2}}
	require.Equal(t, l, got)
}

func TestLeaseExtremes(t *testing.T) {
	for _, l := range []*Lease{
		{ID: ID{1}},
		{ID: ID{1}, PID: math.MaxUint32, Renewal: math.MaxUint32, Started: math.MinInt64, Heartbeat: math.MaxInt64,
			Host: "\xff"},
	} {
		got, err := Decode(Encode(l))
		require.NoError(t, err)
		require.Equal(t, l, got)
	}
}

func TestNewID(t *testing.T) {
	a := NewID()
	b := NewID()
	require.True(t, a != b && a != ID{})
	require.Equal(t, "dead0000000000000000000000000001", sampleLease().ID.String())
}

func TestNameOfARenewal(t *testing.T) {
	l := sampleLease()
	require.Equal(t, "dead000000000000000000000000000100000000", l.Name())
	l.Renewal = 0x1f
	require.Equal(t, "dead00000000000000000000000000010000001f", l.Name())
	require.Equal(t, l.ID.String(), WriterOf(l.Name()))
	require.Equal(t, "12", WriterOf("12"), "a foreign name is a writer by itself")
}

func TestDecodeLeaseRefuses(t *testing.T) {
	withID := func(tag, n uint64) func(*wire.Fields) {
		return func(f *wire.Fields) {
			f.Bytes(tagID, []byte("0123456789abcdef"))
			f.Uint(tag, n)
		}
	}
	for name, c := range map[string]struct {
		fill func(*wire.Fields)
		want error
	}{
		"nothing":           {func(*wire.Fields) {}, format.ErrCorrupt},
		"zero id":           {func(f *wire.Fields) { f.Bytes(tagID, make([]byte, 16)) }, format.ErrCorrupt},
		"short id":          {func(f *wire.Fields) { f.Bytes(tagID, []byte{1}) }, format.ErrCorrupt},
		"long id":           {func(f *wire.Fields) { f.Bytes(tagID, make([]byte, 17)) }, format.ErrCorrupt},
		"pid above 32 bits": {withID(tagPID, 1<<32), format.ErrCorrupt},
		"renewal too large": {withID(tagRenewal, 1<<32), format.ErrCorrupt},
		"unknown odd":       {withID(9, 1), format.ErrUnsupported},
		"unknown even":      {withID(1000, 1), nil},
		"marks twice": {func(f *wire.Fields) {
			f.Bytes(tagID, []byte("0123456789abcdef"))
			f.IDs(tagAcknowledged, []format.ID{{1}, {1}})
		}, format.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			f := wire.NewFields(nil)
			c.fill(f)
			got, err := Decode(f.Finish())
			if c.want == nil {
				require.NoError(t, err)
				require.Equal(t, &Lease{ID: ID([]byte("0123456789abcdef"))}, got)
				return
			}
			require.ErrorIs(t, err, c.want)
			require.Nil(t, got)
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(sampleLease()))
	f.Fuzz(func(t *testing.T, p []byte) {
		l, err := Decode(p)
		if err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		again, err := Decode(Encode(l))
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}

func TestNextName(t *testing.T) {
	l := sampleLease()
	l.Renewal = 0x1f
	next, ok := NextName(l.Name())
	require.True(t, ok)
	l.Renewal++
	require.Equal(t, l.Name(), next)
	require.Equal(t, l.ID.String(), WriterOf(next))
	for _, none := range []string{l.ID.String() + "ffffffff", l.ID.String(), "", l.ID.String() + "0000000g"} {
		_, ok := NextName(none)
		require.False(t, ok, none)
	}
}

func TestProbesAreNoLeases(t *testing.T) {
	require.NotEqual(t, ProbeName(), ProbeName())
	require.True(t, IsProbe(ProbeName()))
	require.False(t, IsProbe(sampleLease().Name()))
	_, ok := NextName(ProbeName())
	require.False(t, ok)
}
