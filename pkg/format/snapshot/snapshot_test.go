package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
	"github.com/tidemark-backup/tidemark/pkg/format/wire"
)

func filled(b byte) (id format.ID) {
	for i := range id {
		id[i] = b
	}
	return id
}

// full returns a snapshot in which no field is zero and no two numbers of the statistics are equal.
func full() *Snapshot {
	s := &Snapshot{
		Time:         tree.Time{Sec: 1_790_000_000, Nsec: 123_456_789},
		Start:        tree.Time{Sec: 1_790_000_001, Nsec: 1},
		End:          tree.Time{Sec: 1_790_003_600, Nsec: 999_999_999},
		Tree:         filled(1),
		Host:         "engine",
		User:         "ada",
		UID:          1000,
		GID:          math.MaxUint32,
		System:       "linux/amd64",
		Program:      "tidemark 1.0",
		Sources:      []string{"/home", "/srv/\xff\xfe"},
		Tags:         []string{"nightly", ""},
		Parent:       filled(2),
		Shape:        filled(3),
		Rules:        []string{"exclude *.tmp", "include /home/*/keep.tmp"},
		Users:        map[uint32]string{0: "root", 1000: "ada", math.MaxUint32: "last"},
		Groups:       map[uint32]string{0: "wheel", 100: "users"},
		Original:     filled(4),
		Description:  "before the move",
		Acknowledged: []format.ID{filled(5), filled(6)},
		Renewed:      tree.Time{Sec: 1_790_000_400, Nsec: 5},
		Partial:      true,
		Held:         []Held{{State: Shrunk, Failed: 3}, {Accepted: 1}},
		Job:          "home",
		Setup:        "SERVERNAME home\n  SCHEDULE hourly\n",
		Domain:       []string{"ALL-LOCAL", "-/tmp"},
	}
	s.Held[0].Count, s.Held[0].Expected = Count{Files: 12, Bytes: 345}, Count{Files: 6789, Bytes: 1 << 33}
	n := uint64(1)
	for tag := uint64(tagContent); tag <= tagBlobs; tag += 2 {
		for _, number := range s.Stats.group(tag) {
			*number = n
			n = n*3 + 1
		}
	}
	return s
}

func TestSpec(t *testing.T) {
	require.Equal(t, map[string]uint64{
		"time": tagTime, "start": tagStart, "end": tagEnd, "tree": tagTree, "host": tagHost, "user": tagUser,
		"uid": tagUID, "gid": tagGID, "system": tagSystem, "program": tagProgram, "sources": tagSources,
		"tags": tagTags, "parent": tagParent, "shape": tagShape, "rules": tagRules, "users": tagUsers,
		"groups": tagGroups, "stats": tagStats, "original": tagOriginal, "description": tagDescription,
		"acknowledged": tagAcknowledged, "renewed": tagRenewed, "partial": tagPartial, "held": tagHeld, "job": tagJob,
		"setup": tagSetup, "domain": tagDomain,
	}, spectest.Numbers(t, "SPEC.md", "Fields", "Field", "Tag"))
	require.Equal(t, map[string]uint64{
		"content": tagContent, "objects": tagObjects, "files": tagFiles, "dirs": tagDirs, "others": tagOthers,
		"bytes": tagBytes, "blobs": tagBlobs,
	}, spectest.Numbers(t, "SPEC.md", "Statistics", "Group", "Tag"))
}

// TestStatsFollowSpec sets each number by the tags in the table and looks for it in the field of that name; and every
// field of the statistics is in the table.
func TestStatsFollowSpec(t *testing.T) {
	groups := spectest.Numbers(t, "SPEC.md", "Statistics", "Group", "Tag")
	count := 0
	for _, row := range spectest.Table(t, "SPEC.md", "Numbers") {
		for column, name := range row {
			if column == "Group" || name == "" {
				continue
			}
			var tag uint64
			_, err := fmt.Sscan(column, &tag)
			require.NoError(t, err)
			f := wire.NewFields(nil)
			f.ID(tagTree, filled(1))
			f.Record(tagStats, func(f *wire.Fields) {
				f.Record(groups[row["Group"]], func(f *wire.Fields) { f.Uint(tag, 77) })
			})
			s, err := Decode(f.Finish())
			require.NoError(t, err)
			group := strings.ToUpper(row["Group"][:1]) + row["Group"][1:]
			value := reflect.ValueOf(&s.Stats).Elem().FieldByName(group).FieldByName(name)
			require.True(t, value.IsValid(), "no %s.%s", group, name)
			require.EqualValues(t, 77, value.Uint(), "%s.%s", group, name)
			value.SetUint(0)
			require.Equal(t, Stats{}, s.Stats, "%s.%s set something else as well", group, name)
			count++
		}
	}
	require.Equal(t, int(reflect.TypeFor[Stats]().Size()/8), count, "numbers without a place in SPEC.md")
}

// TestHeldFollowsSpec sets each number by the tags in the table and looks for it in the field of that name.
func TestHeldFollowsSpec(t *testing.T) {
	rows := spectest.Numbers(t, "SPEC.md", "Held", "Number", "Tag")
	require.Len(t, rows, len(new(Held).numbers()))
	for name, tag := range rows {
		f := wire.NewFields(nil)
		f.Uint(tag, 3)
		var h Held
		require.NoError(t, wire.ReadFields(f.Finish(), numberFields(h.numbers())))
		require.True(t, name == "State" || !h.Doubted(), "only the state says that data may be lacking")
		value := reflect.ValueOf(&h).Elem()
		for part := range strings.SplitSeq(name, ".") {
			value = value.FieldByName(part)
		}
		require.EqualValues(t, 3, value.Uint(), name)
		value.SetUint(0)
		require.Equal(t, Held{}, h, "%s set something else as well", name)
	}
}

func TestGolden(t *testing.T) {
	for name, s := range map[string]*Snapshot{"full": full(), "least": {Tree: filled(9)}} {
		stored := spectest.Golden(t, name, Encode(s))
		got, err := Decode(stored)
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

// TestReadersThatLackAField: a reader that does not know a field refuses the snapshot if it would misunderstand it.
func TestReadersThatLackAField(t *testing.T) {
	refused := []uint64{tagTime, tagTree, tagSources, tagPartial}
	tags := spectest.Numbers(t, "SPEC.md", "Fields", "Field", "Tag")
	for name, lacks := range tags {
		err := wire.ReadFields(Encode(full()), func(f *wire.Fields) {
			for _, tag := range slices.Sorted(maps.Values(tags)) {
				if tag != lacks {
					f.Bytes(tag, nil)
				}
			}
		})
		if slices.Contains(refused, lacks) {
			require.ErrorIs(t, err, format.ErrUnsupported, name)
		} else {
			require.NoError(t, err, name)
		}
	}
	var older Held
	all := older.numbers()
	f := wire.NewFields(nil)
	f.Uint(numberTag(len(all)-1), 1)
	require.NoError(t, wire.ReadFields(f.Finish(), numberFields(all[:len(all)-1])),
		"a reader that does not know what was accepted")
}

// TestAsked: a machine with other file systems has other sources, but was asked for the same.
func TestAsked(t *testing.T) {
	require.Equal(t, []string{"/home"}, (&Snapshot{Sources: []string{"/home"}}).Asked())
	require.Equal(t, []string{"ALL-LOCAL"}, (&Snapshot{Sources: []string{"/"}, Domain: []string{"ALL-LOCAL"}}).Asked())
}

// TestFullIsFull keeps the golden vector and the tests below honest when a field is added.
func TestFullIsFull(t *testing.T) {
	v := reflect.ValueOf(full()).Elem()
	for i := range v.NumField() {
		require.False(t, v.Field(i).IsZero(), v.Type().Field(i).Name)
	}
}

// TestEncodingIsDeterministic whatever the order of the maps.
func TestEncodingIsDeterministic(t *testing.T) {
	make1000 := func(seed uint64) *Snapshot {
		s := full()
		s.Users = map[uint32]string{}
		r := rand.New(rand.NewPCG(seed, 0))
		for _, i := range r.Perm(1000) {
			s.Users[uint32(i)*7919] = fmt.Sprint("user", i)
		}
		return s
	}
	want := Encode(make1000(1))
	for seed := range uint64(10) {
		require.True(t, bytes.Equal(want, Encode(make1000(seed))))
	}
	got, err := Decode(want)
	require.NoError(t, err)
	require.Equal(t, make1000(3), got)
}

func TestTimes(t *testing.T) {
	for _, when := range []tree.Time{
		{}, {Sec: -1, Nsec: 999_999_999}, {Sec: math.MinInt64}, {Sec: math.MaxInt64, Nsec: 1},
	} {
		s := &Snapshot{Tree: filled(1), Time: when, Start: when, End: when}
		got, err := Decode(Encode(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestDecodeRefuses(t *testing.T) {
	record := func(fill func(*wire.Fields)) []byte {
		f := wire.NewFields(nil)
		f.ID(tagTree, filled(1))
		fill(f)
		return f.Finish()
	}
	users := func(p ...byte) []byte { return record(func(f *wire.Fields) { f.Bytes(tagUsers, p) }) }
	inner := func(tag uint64) func(*wire.Fields) { return func(f *wire.Fields) { f.Uint(tag, 1) } }
	for name, c := range map[string]struct {
		input []byte
		want  error
	}{
		"nothing":            {nil, format.ErrCorrupt},
		"no tree":            {Encode(&Snapshot{Host: "x"}), format.ErrCorrupt},
		"cut off":            {Encode(full())[:100], format.ErrCorrupt},
		"unknown even":       {record(inner(1000)), nil},
		"unknown odd":        {record(inner(1001)), format.ErrUnsupported},
		"unknown even group": {record(func(f *wire.Fields) { f.Record(tagStats, inner(1000)) }), nil},
		"unknown odd group":  {record(func(f *wire.Fields) { f.Record(tagStats, inner(1001)) }), format.ErrUnsupported},
		"unknown even number": {
			record(func(f *wire.Fields) { f.Record(tagStats, func(f *wire.Fields) { f.Record(2, inner(1000)) }) }), nil,
		},
		"unknown odd number": {
			record(func(f *wire.Fields) { f.Record(tagStats, func(f *wire.Fields) { f.Record(2, inner(3)) }) }),
			format.ErrUnsupported,
		},
		"numbers as text": {record(func(f *wire.Fields) { f.String(tagStats, "text") }), format.ErrCorrupt},
		"uid above 32 bits": {
			record(func(f *wire.Fields) { f.Uint(tagUID, 1<<32) }), format.ErrCorrupt,
		},
		"user above 32 bits": {
			record(func(f *wire.Fields) { f.Bytes(tagUsers, append(wire.AppendUvarint(nil, 1<<32), 0)) }), format.ErrCorrupt,
		},
		"users twice":       {users(5, 1, 'a', 5, 1, 'a'), format.ErrCorrupt},
		"users descend":     {users(5, 1, 'a', 4, 1, 'a'), format.ErrCorrupt},
		"groups cut off":    {record(func(f *wire.Fields) { f.Bytes(tagGroups, []byte{5, 2, 'a'}) }), format.ErrCorrupt},
		"short parent":      {record(func(f *wire.Fields) { f.Bytes(tagParent, make([]byte, 31)) }), format.ErrCorrupt},
		"long parent":       {record(func(f *wire.Fields) { f.Bytes(tagParent, make([]byte, 33)) }), format.ErrCorrupt},
		"held cut off":      {record(func(f *wire.Fields) { f.Bytes(tagHeld, []byte{4, 2, 1}) }), format.ErrCorrupt},
		"held of no source": {record(func(f *wire.Fields) { f.Bytes(tagHeld, []byte{0}) }), format.ErrCorrupt},
		"sources cut off":   {record(func(f *wire.Fields) { f.Bytes(tagSources, []byte{9, 'a'}) }), format.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(c.input)
			if c.want == nil {
				require.NoError(t, err)
				require.Equal(t, filled(1), got.Tree)
				return
			}
			require.ErrorIs(t, err, c.want)
			require.Nil(t, got)
		})
	}
	late := appendTime(tree.Time{Sec: 1, Nsec: 1_000_000_000})
	f := wire.NewFields(nil)
	f.Bytes(tagTime, late)
	f.ID(tagTree, filled(1))
	_, err := Decode(f.Finish())
	require.ErrorIs(t, err, format.ErrCorrupt, "a second has 10^9 nanoseconds")
}

// TestHostileInput: the worst lists in a small input stay small in memory.
func TestHostileInput(t *testing.T) {
	const n = 1 << 16
	var users []byte
	for i := range uint64(n) {
		users = append(wire.AppendUvarint(users, i), 0)
	}
	f := wire.NewFields(nil)
	f.ID(tagTree, filled(1))
	f.Bytes(tagSources, make([]byte, n))
	f.Bytes(tagUsers, users)
	input := f.Finish()
	var s *Snapshot
	var err error
	allocated := spectest.Allocated(func() { s, err = Decode(input) })
	require.NoError(t, err)
	require.Len(t, s.Sources, n)
	require.Len(t, s.Users, n)
	require.Less(t, allocated, uint64(100*len(input)))
}

func FuzzDecode(f *testing.F) {
	f.Add(Encode(full()))
	f.Add(Encode(&Snapshot{Tree: filled(1)}))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := Decode(p)
		if err != nil {
			require.True(t, errors.Is(err, format.ErrCorrupt) != errors.Is(err, format.ErrUnsupported), "%v", err)
			return
		}
		again, err := Decode(Encode(s))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
