package roundtrip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// oddFile is an entry of an oddSystem.
type oddFile struct {
	mode   uint32 // with the type
	data   string // of a file; the target of a link
	listed int    // how often; 0: once
	look   unix.Errno
	open   unix.Errno // also of a directory or a link
	list   unix.Errno // of a directory
}

// oddSystem is a file system of one directory that behaves like no healthy one, served by the test itself.
type oddSystem struct {
	point string

	mu    sync.Mutex
	files map[string]*oddFile
	names []string // by number: that of node n is n-oddFirst
}

const oddFirst = 2 // 1 is the directory

// Numbers of linux/fuse.h.
const (
	fuseLookup, fuseForget, fuseGetattr, fuseReadlink, fuseOpen, fuseRead, fuseStatfs = 1, 2, 3, 5, 14, 15, 17
	fuseRelease, fuseInit, fuseOpendir, fuseReaddir, fuseReleasedir                   = 18, 26, 27, 28, 29
	fuseInterrupt, fuseBatchForget                                                    = 36, 42
)

type fuseIn struct {
	Len, Op      uint32
	Unique, Node uint64
	_            [4]uint32
}

type fuseAttr struct {
	Ino, Size, Blocks, Atime, Mtime, Ctime uint64
	Nsec                                   [3]uint32
	Mode, Links, UID, GID, Rdev, Block, _  uint32
}

// mountOdd mounts a directory of these files until the test is over.
func mountOdd(t *testing.T, files map[string]*oddFile) *oddSystem {
	t.Helper()
	testkit.RequireRoot(t)
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE: %v", err)
	}
	s := &oddSystem{point: testkit.RamDir(t), files: files, names: slices.Sorted(maps.Keys(files))}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other", fd)
	if err := unix.Mount("odd", s.point, "fuse.odd", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		unix.Close(fd)
		t.Skipf("needs FUSE: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(fd)
	}()
	t.Cleanup(func() {
		require.NoError(t, unix.Unmount(s.point, unix.MNT_DETACH))
		<-ended
		unix.Close(fd)
	})
	return s
}

// change changes an entry, or all.
func (s *oddSystem) change(name string, to func(f *oddFile)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	to(s.files[name])
}

func (s *oddSystem) serve(fd int) {
	p := make([]byte, 1<<20)
	for {
		n, err := unix.Read(fd, p)
		switch {
		case err == unix.EINTR, err == unix.EAGAIN, err == unix.ENOENT:
			continue
		case err != nil: // unmounted
			return
		}
		in := (*fuseIn)(unsafe.Pointer(&p[0]))
		if in.Op == fuseForget || in.Op == fuseBatchForget || in.Op == fuseInterrupt {
			continue
		}
		body, errno := s.answer(in, p[unsafe.Sizeof(*in):n])
		if errno != 0 {
			body = nil
		}
		out := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		out = binary.NativeEndian.AppendUint32(out, uint32(-int32(errno)))
		out = append(binary.NativeEndian.AppendUint64(out, in.Unique), body...)
		_, _ = unix.Write(fd, out) // the requesting process may be gone
	}
}

func numbers(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, binary.NativeEndian, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func (s *oddSystem) answer(in *fuseIn, arg []byte) ([]byte, unix.Errno) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := &oddFile{mode: unix.S_IFDIR | 0o755}
	if i := int(in.Node) - oddFirst; i >= 0 && i < len(s.names) {
		file = s.files[s.names[i]]
	}
	switch in.Op {
	case fuseInit:
		return numbers(uint32(7), uint32(31), uint32(0), uint32(0), uint32(1<<16), uint32(1<<17), [10]uint32{}), 0
	case fuseLookup:
		name := unix.ByteSliceToString(arg)
		i, ok := slices.BinarySearch(s.names, name)
		if !ok {
			return nil, unix.ENOENT
		}
		id := uint64(i) + oddFirst
		return numbers(id, [4]uint64{}, s.attr(id, s.files[name])), s.files[name].look
	case fuseGetattr:
		return numbers([2]uint64{}, s.attr(in.Node, file)), 0
	case fuseOpen, fuseOpendir:
		return numbers([2]uint64{}), file.open
	case fuseReadlink:
		return []byte(file.data), file.open
	case fuseRead:
		off, size := binary.NativeEndian.Uint64(arg[8:]), uint64(binary.NativeEndian.Uint32(arg[16:]))
		end := uint64(len(file.data))
		return []byte(file.data[min(off, end):min(off+size, end)]), 0
	case fuseReaddir:
		if file.list != 0 {
			return nil, file.list
		}
		if in.Node != 1 || binary.NativeEndian.Uint64(arg[8:]) > 0 {
			return nil, 0
		}
		return s.list(), 0
	case fuseStatfs:
		return make([]byte, 80), 0
	case fuseRelease, fuseReleasedir:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

func (s *oddSystem) attr(id uint64, f *oddFile) fuseAttr {
	return fuseAttr{
		Ino: id, Size: uint64(len(f.data)), Blocks: uint64(len(f.data)+511) / 512, Mode: f.mode, Links: 1, Block: 4096,
		Mtime: 1_700_000_000, Ctime: 1_700_000_000, Nsec: [3]uint32{1, 2, 3},
	}
}

// list returns all entries, in one answer.
func (s *oddSystem) list() (all []byte) {
	for i, name := range s.names {
		for range max(1, s.files[name].listed) {
			all = append(all, numbers(uint64(i)+oddFirst, uint64(len(all)+1), uint32(len(name)), s.files[name].mode>>12)...)
			all = append(all, name...)
			all = append(all, make([]byte, (8-len(name)%8)%8)...)
		}
	}
	return all
}

// TestWhatIsThereAndCannotBeHad: a file system may report a listed entry as missing, or refuse to open a file with
// misleading errors. Each is a failure in every run until the entry is readable, and all other entries are backed up.
func TestWhatIsThereAndCannotBeHad(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	const file, dir, link = unix.S_IFREG | 0o644, unix.S_IFDIR | 0o755, unix.S_IFLNK | 0o777
	odd := map[string]*oddFile{
		"not found":       {mode: file, data: "a", look: unix.ENOENT},
		"not found, old":  {mode: file, data: "b", look: unix.ESTALE},
		"not opened":      {mode: file, data: "c", open: unix.ENOENT},
		"old":             {mode: file, data: "d", open: unix.ESTALE},
		"not supported":   {mode: file, data: "e", open: unix.EOPNOTSUPP},
		"no device":       {mode: file, data: "f", open: unix.ENXIO},
		"directory":       {mode: dir, open: unix.ENOENT},
		"old directory":   {mode: dir, open: unix.ESTALE},
		"no directory":    {mode: dir, open: unix.ENOTDIR},
		"not listed":      {mode: dir, list: unix.ENOENT},
		"link":            {mode: link, data: "to", open: unix.EINVAL},
		"vanishing link":  {mode: link, data: "to", open: unix.ENOENT},
		"large":           {mode: file, data: string(testkit.Noise(1, 300_000)), open: unix.EOPNOTSUPP},
		"large, not here": {mode: file, data: string(testkit.Noise(2, 300_000)), open: unix.ENOENT},
	}
	files := maps.Clone(odd)
	files["fine"] = &oddFile{mode: file, data: "fine"}
	files["z"] = &oddFile{mode: file, data: "also fine"}
	s := mountOdd(t, files)
	e := kit.NewEngine(t, nil)
	for range 2 { // what failed is tried again, and fails again
		made, _, err := e.Backup(e.Job(s.point))
		require.NoError(t, err)
		require.True(t, made.Failed)
		failures := e.Failures()
		require.Len(t, failures, len(odd), "%q", failures)
		for name := range odd {
			require.True(t, slices.ContainsFunc(failures, func(line string) bool {
				return bytes.HasPrefix([]byte(line), []byte(s.point+"/"+name+": "))
			}), "%s is reported among %q", name, failures)
		}
		got := e.Objects(made.Snapshot.Tree, s.point)
		require.Equal(t, "fine", got["fine"].Data)
		require.Equal(t, "also fine", got["z"].Data)
	}
	for name := range odd {
		s.change(name, func(f *oddFile) { f.look, f.open, f.list = 0, 0, 0 })
	}
	made, _, err := e.Backup(e.Job(s.point))
	require.NoError(t, err)
	require.Empty(t, e.Failures())
	got := e.Objects(made.Snapshot.Tree, s.point)
	for name, f := range files {
		require.Contains(t, got, name)
		if f.mode == file {
			require.True(t, f.data == got[name].Data, name)
		}
	}
	e.RequireSound()
}

// TestNameThatCannotBeKept: a name that is longer than a snapshot keeps is missed, and nothing else is.
func TestNameThatCannotBeKept(t *testing.T) {
	const file = unix.S_IFREG | 0o644
	long := strings.Repeat("n", tree.MaxName+1)
	s := mountOdd(t, map[string]*oddFile{"a": {mode: file, data: "a"}, long: {mode: file, data: "long"},
		"z": {mode: file, data: "z"}})
	e := kit.NewEngine(t, nil)
	for range 2 {
		made, _, err := e.Backup(e.Job(s.point))
		require.NoError(t, err)
		require.True(t, made.Failed)
		require.Len(t, e.Failures(), 1)
		got := e.Objects(made.Snapshot.Tree, s.point)
		require.Len(t, got, 2)
		require.Equal(t, "z", got["z"].Data)
	}
}

// TestNamesListedTwice: where a name is removed and created again while a directory is listed, some file systems list
// it twice.
func TestNamesListedTwice(t *testing.T) {
	const file = unix.S_IFREG | 0o644
	s := mountOdd(t, map[string]*oddFile{
		"a": {mode: file, data: "a"}, "twice": {mode: file, data: "2", listed: 2},
		"a long name, twice": {mode: file, data: "l", listed: 2},
		"a long name":        {mode: file, data: "a long name"}, "z": {mode: unix.S_IFDIR | 0o755, listed: 3},
	})
	e := kit.NewEngine(t, nil)
	for range 2 {
		made, totals, err := e.Backup(e.Job(s.point))
		require.NoError(t, err)
		require.Empty(t, e.Failures())
		require.Zero(t, totals.Objects.Excluded)
		got := e.Objects(made.Snapshot.Tree, s.point)
		require.Len(t, got, 5)
		require.Equal(t, "2", got["twice"].Data)
	}
}
