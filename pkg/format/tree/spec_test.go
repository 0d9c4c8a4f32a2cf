package tree

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
)

func TestSpec(t *testing.T) {
	for heading, c := range map[string]struct {
		key, value string
		want       map[string]uint64
	}{
		"Page header": {"field", "offset", map[string]uint64{"kind": 0, "version": 1, "level": 2, "flags": 3}},
		"Kinds":       {"kind", "value", map[string]uint64{"tree": kindTree, "list": kindList}},
		"First byte": {"bits", "mask", map[string]uint64{
			"type": rowTypeMask, "form of content": rowContentMask, "same owner": rowSameOwner,
			"rare flags follow": rowRare,
		}},
		"Second byte": {"bits", "mask", map[string]uint64{
			"form of modification time": timesModMask, "form of change time": timesChangedMask,
			"form of birth time": timesBornMask, "links follow": rowLinks,
		}},
		"Rare flags": {"flag", "mask", map[string]uint64{
			"access time": rareAccess, "outcome": rareOutcome, "mount point, of a directory only": rareMount,
			"extended attributes": rareXattrs, "same extended attributes as the page spelled out last": rareSameXattrs,
			"recheck": rareRecheck, "file system": rareFS,
		}},
		"Types": {"type", "value", map[string]uint64{
			"file": uint64(File), "directory": uint64(Dir), "symlink": uint64(Symlink), "fifo": uint64(Fifo),
			"socket": uint64(Socket), "character device": uint64(CharDevice), "block device": uint64(BlockDevice),
		}},
		"Outcomes": {"outcome", "value", map[string]uint64{
			"static": uint64(Static), "retried": uint64(Retried), "dynamic": uint64(Dynamic),
			"skipped": uint64(Skipped), "unreadable": uint64(Unreadable),
		}},
		"Owner": {"flag", "mask", map[string]uint64{"user": ownerUID, "group": ownerGID, "inode flags": ownerFlags}},
		"Content": {"form", "value", map[string]uint64{
			"none": contentNone, "one": contentOne, "inline": contentInline, "short": contentShort,
			"chunks": contentChunks, "list": contentList,
		}},
		"Limits": {"name", "value", map[string]uint64{
			"version": Version, "header": headerSize, "largest page": MaxPage, "longest name": MaxName,
			"most bytes taken from a name": maxShared, "highest level": maxLevel,
			"longest inline content": MaxInline, "most chunks in a node": MaxChunks, "least size to cut": cutMin,
			"largest size": cutMax, "cut per byte": cutPer, "largest header": headroom, "shortest node": minNodeRow,
			"shortest branch row": minRefRow, "shortest chunk": minChunkRow, "shortest list row": minListRow,
		}},
	} {
		require.Equal(t, c.want, spectest.Numbers(t, "SPEC.md", heading, c.key, c.value), heading)
	}
	require.Equal(t, rareKnown, rareAccess|rareOutcome|rareMount|rareXattrs|rareSameXattrs|rareRecheck|
		rareFS)
	require.Equal(t, 0xFF, rowTypeMask|rowContentMask|rowSameOwner|rowRare)
	require.Equal(t, 0xFF, timesModMask|timesChangedMask|timesBornMask|rowLinks)
}

func TestSpecTimes(t *testing.T) {
	values := map[string]string{}
	for _, row := range spectest.Table(t, "SPEC.md", "Times") {
		values[row["time"]+" "+row["form"]] = row["value"]
	}
	want := map[string]int{
		"modification same": modSame, "modification seconds": modSeconds, "modification nanoseconds": modNanos,
		"modification full": modFull, "change same": changedMod, "change nanoseconds": changedNanos,
		"change previous": changedPrev, "change full": changedFull, "birth none": bornNone,
		"birth change": bornChanged, "birth modification": bornMod, "birth nanoseconds": bornNanos,
		"birth previous": bornPrev, "birth full": bornFull,
	}
	require.Len(t, values, len(want))
	for name, n := range want {
		require.Equal(t, string(rune('0'+n)), values[name], name)
	}
}

// goldenNodes has a node of every type, every form of time and content, and every flag.
func goldenNodes() []Node {
	id := func(b byte) (id format.ID) {
		for i := range id {
			id[i] = b + byte(i)
		}
		return id
	}
	at := func(sec int64, nsec uint32) *Time { return &Time{Sec: sec, Nsec: nsec} }
	label := []Xattr{{Name: "security.selinux", Value: []byte("etc_t")}, {Name: "user.empty"}}
	const base = 1_700_000_000
	return []Node{
		{
			Name: "a", Type: Dir, Mode: 0o1777, Links: 5, Inode: 100, ModTime: *at(base, 0), Changed: *at(base, 0),
			Subtree: id(1), Mount: true, Xattrs: label,
		},
		{
			Name: "a file", Type: File, Mode: 0o644, UID: 1000, GID: 100, Flags: 0x80000, Links: 1, Inode: 101, Size: 5000,
			ModTime: *at(base, 0), Changed: *at(base, 7), Born: at(base, 7), Xattrs: label,
			Content: Content{Chunks: []Chunk{{ID: id(2), Len: 5000}}},
		},
		{
			Name: "a file\xff\xfe", Type: File, Mode: 0o600, UID: 1000, GID: 100, Flags: 0x80000, Links: 2, Inode: 99, Size: 3,
			ModTime: *at(base-100, 0), Changed: *at(base, 9), Born: at(base-100, 0), Content: Content{Inline: []byte("abc")},
		},
		{
			Name: "grown", Type: File, Mode: 0o600, UID: 1000, GID: 100, Flags: 0x80000, Links: 1, Inode: 103, Size: 7,
			ModTime: *at(base-100, 5), Changed: *at(base-100, 6), Born: at(base-100, 3), Access: at(base+5, 5),
			Outcome: Dynamic, Recheck: true, Content: Content{Inline: []byte("abc")},
		},
		{
			Name: "holes", Type: File, Mode: 0o4755, Links: 1, Size: 1 << 40, ModTime: *at(-1<<40, 1),
			Changed: *at(1<<40, 2), Born: at(-1<<50, 3),
			Content: Content{Chunks: []Chunk{{Len: 1<<40 - 10}, {ID: id(3), Len: 10}}},
		},
		{Name: "large", Type: File, Mode: 0o600, Links: 1, Size: 1 << 30, Born: at(-1<<50, 9), Content: Content{List: id(4)}},
		{Name: "link", Type: Symlink, Mode: 0o777, Links: 1, Target: "../\xff"},
		{Name: "mounted", Type: File, Links: 2, Inode: 99, FS: 300},
		{Name: "p", Type: Fifo, Links: 1}, {Name: "s", Type: Socket, Links: 1},
		{Name: "tty", Type: CharDevice, Mode: 0o620, GID: 5, Links: 1, Device: 4<<32 | 64},
		{Name: "vda", Type: BlockDevice, Mode: 0o660, GID: 6, Links: 1, Device: 254 << 32},
		{Name: "zero", Type: File, Links: 1, Outcome: Unreadable},
	}
}

func TestGolden(t *testing.T) {
	nodes := goldenNodes()
	s := shelf{}
	page := spectest.Golden(t, "leaf-v1", s[s.build(t, nodes)])
	pg, err := DecodePage(page)
	require.NoError(t, err)
	require.Equal(t, nodes, pg.Nodes)

	b := NewBuilder(s.emit)
	for i, name := range []string{"middle", "middle of it", "\xff"} {
		b.last = append(b.last[:0], name...)
		require.NoError(t, b.pages.add(1, format.ID{byte(i), 1}, [2]uint64{uint64(1000 * i)}))
	}
	page = spectest.Golden(t, "branch-v1", slices.Clone(b.pages.at(1).finish(kindTree, 1)))
	pg, err = DecodePage(page)
	require.NoError(t, err)
	require.Equal(t, []Ref{
		{Last: "middle", ID: format.ID{0, 1}}, {Last: "middle of it", ID: format.ID{1, 1}, Nodes: 1000},
		{Last: "\xff", ID: format.ID{2, 1}, Nodes: 2000},
	}, pg.Children)

	chunks := []Chunk{{ID: format.ID{1}, Len: 70000}, {Len: 1 << 40}, {ID: format.ID{2}, Len: 1}}
	lists := NewContentBuilder(s.emit)
	for _, c := range chunks {
		require.NoError(t, lists.add(c))
	}
	list, err := DecodeListPage(spectest.Golden(t, "list-v1", slices.Clone(lists.pages.at(0).finish(kindList, 0))))
	require.NoError(t, err)
	require.Equal(t, chunks, list.Chunks)
	lists.pages.emit = func([]byte) (format.ID, error) { return format.ID{9}, nil }
	require.NoError(t, lists.pages.flush(0))
	list, err = DecodeListPage(spectest.Golden(t, "listbranch-v1", slices.Clone(lists.pages.at(1).finish(kindList, 1))))
	require.NoError(t, err)
	require.Equal(t, []ListRef{{ID: format.ID{9}, Bytes: 1<<40 + 70001, Chunks: 3}}, list.Children)
}

// TestCutPoints keeps where pages end: a change would give every large directory a new ID.
func TestCutPoints(t *testing.T) {
	// Computed by an independent program from the text of SPEC.md.
	require.Equal(t, uint32(0x82a2a958), nameHash([]byte("a"), 0))
	require.Equal(t, uint32(0x86ede49b), nameHash([]byte("a"), 1))
	require.Equal(t, uint32(0xd62b4565), nameHash([]byte("a longer name"), 2))
	require.True(t, cuts(cutMin, 100, 100*cutPer-1))
	require.False(t, cuts(cutMin, 100, 100*cutPer))
	require.False(t, cuts(cutMin-1, 100, 0))
}
