package browse_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

func metadata() dir {
	linked := func() *tree.Node {
		return &tree.Node{Type: tree.File, Mode: 0o600, Links: 2, Inode: 42, Size: 3,
			Content: tree.Content{Inline: []byte("abc")}}
	}
	return dir{"top": dir{
		"file": &tree.Node{Type: tree.File, Mode: 0o4755, UID: 1000, GID: 3_000_000_000, Links: 1, Size: 5,
			ModTime: tree.Time{Sec: 1_700_000_000, Nsec: 123_456_789}, Content: tree.Content{Inline: []byte("hello")},
			Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("x\x00y")}, {Name: "user.b=c", Value: []byte("z")}}},
		"old":     &tree.Node{Type: tree.File, Links: 1, ModTime: tree.Time{Sec: -5, Nsec: 1}},
		"sparse":  &tree.Node{Type: tree.File, Links: 1, Size: 100_000},
		"big":     stored.Noise(1, 40*stored.ChunkSize),
		"bad\xff": []byte("name"),
		"link":    &tree.Node{Type: tree.Symlink, Mode: 0o777, Links: 1, Target: strings.Repeat("long/", 60)},
		"fifo":    &tree.Node{Type: tree.Fifo, Links: 1},
		"tty":     &tree.Node{Type: tree.CharDevice, Links: 1, Device: 4<<32 | 65},
		"disk":    &tree.Node{Type: tree.BlockDevice, Links: 1, Device: 259<<32 | 70000},
		"socket":  &tree.Node{Type: tree.Socket, Links: 1},
		"gone":    &tree.Node{Type: tree.File, Links: 1, Size: 9, Outcome: tree.Skipped},
		"hard1":   linked(), "hard2": linked(),
		"other fs": mount{"hard3": linked()},
	}}
}

// dumped returns the archive of sub and what was left out.
func dumped(t *testing.T, d dir, sub string, a browse.Archive) (out *bytes.Buffer, left map[string]error) {
	t.Helper()
	r := initialise(t)
	out, left = &bytes.Buffer{}, map[string]error{}
	a.Left = func(path string, err error) { left[path] = errors.Join(left[path], err) }
	require.NoError(t, browse.DumpAs(t.Context(), r.LoadBlob, save(t, r, d), sub, a, out))
	return out, left
}

func TestTar(t *testing.T) {
	out, left := dumped(t, metadata(), "/", browse.Archive{Users: map[uint32]string{1000: "ann"}})
	headers, contents := map[string]*tar.Header{}, map[string][]byte{}
	tr := tar.NewReader(out)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		headers[h.Name] = h
		contents[h.Name], err = io.ReadAll(tr)
		require.NoError(t, err)
	}
	require.Len(t, headers, 14)
	file := headers["top/file"]
	require.EqualValues(t, 0o4755, file.Mode)
	require.Equal(t, 1000, file.Uid)
	require.Equal(t, 3_000_000_000, file.Gid)
	require.Equal(t, "ann", file.Uname)
	require.True(t, time.Unix(1_700_000_000, 123_456_789).Equal(file.ModTime))
	require.Equal(t, "x\x00y", file.PAXRecords["SCHILY.xattr.user.a"])
	require.Equal(t, "hello", string(contents["top/file"]))
	require.True(t, time.Unix(-5, 1).Equal(headers["top/old"].ModTime))
	require.Equal(t, make([]byte, 100_000), contents["top/sparse"])
	require.True(t, bytes.Equal(stored.Noise(1, 40*stored.ChunkSize), contents["top/big"]))
	require.Equal(t, "name", string(contents["top/bad\xff"]))
	require.Equal(t, strings.Repeat("long/", 60), headers["top/link"].Linkname)
	require.EqualValues(t, tar.TypeFifo, headers["top/fifo"].Typeflag)
	require.EqualValues(t, tar.TypeDir, headers["top/"].Typeflag)
	require.EqualValues(t, []int64{4, 65}, []int64{headers["top/tty"].Devmajor, headers["top/tty"].Devminor})
	require.EqualValues(t, []int64{259, 70000}, []int64{headers["top/disk"].Devmajor, headers["top/disk"].Devminor})
	require.EqualValues(t, tar.TypeBlock, headers["top/disk"].Typeflag)
	require.Equal(t, "abc", string(contents["top/hard1"]))
	require.EqualValues(t, tar.TypeLink, headers["top/hard2"].Typeflag)
	require.Equal(t, "top/hard1", headers["top/hard2"].Linkname)
	require.EqualValues(t, tar.TypeReg, headers["top/other fs/hard3"].Typeflag, "inodes of another file system")

	require.Len(t, left, 3)
	require.ErrorIs(t, left["/top/socket"], browse.ErrNotRepresentable)
	require.ErrorIs(t, left["/top/file"], browse.ErrNotRepresentable)
	require.ErrorIs(t, left["/top/gone"], browse.ErrNoContent)
}

func TestTarOfAPart(t *testing.T) {
	out, _ := dumped(t, dir{"a": dir{"b": dir{"c": []byte("x")}, "z": []byte("y")}}, "/a/b", browse.Archive{})
	var names []string
	for tr := tar.NewReader(out); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"a/b/", "a/b/c"}, names)
}

func TestZip(t *testing.T) {
	out, left := dumped(t, metadata(), "/top", browse.Archive{Packing: browse.Zip})
	zr, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(t, err)
	contents, modes := map[string][]byte{}, map[string]fs.FileMode{}
	for _, f := range zr.File {
		body, err := f.Open()
		require.NoError(t, err)
		contents[f.Name], err = io.ReadAll(body)
		require.NoError(t, err)
		modes[f.Name] = f.Mode()
	}
	require.True(t, bytes.Equal(stored.Noise(1, 40*stored.ChunkSize), contents["top/big"]))
	require.Equal(t, "abc", string(contents["top/hard2"]), "zip knows no hard links")
	require.Equal(t, strings.Repeat("long/", 60), string(contents["top/link"]))
	require.Equal(t, fs.ModeSymlink|0o777, modes["top/link"])
	require.Equal(t, fs.ModeSetuid|0o755, modes["top/file"])
	require.Equal(t, fs.ModeDir|0o755, modes["top/"])
	require.ErrorIs(t, left["/top/fifo"], browse.ErrNotRepresentable)
	require.ErrorIs(t, left["/top/gone"], browse.ErrNoContent)
}

// TestArchiveOfOddities: an archive omits and reports objects that it cannot hold, and keeps all others. It also
// reports content that the snapshot lacks.
func TestArchiveOfOddities(t *testing.T) {
	large := func(name string, n int) tree.Xattr { return tree.Xattr{Name: name, Value: stored.Noise(1, n)} }
	odd := func() dir {
		return dir{
			"attributes": &tree.Node{Type: tree.File, Links: 1,
				Xattrs: []tree.Xattr{large("user.a", 700_000), large("user.b", 400_000), large("user.c", 10)}},
			"device":  &tree.Node{Type: tree.CharDevice, Links: 1, Device: 14<<32 | 16_000_000},
			"born":    &tree.Node{Type: tree.File, Links: 1, ModTime: tree.Time{Sec: 1}},
			"before":  &tree.Node{Type: tree.File, Links: 1, ModTime: tree.Time{Sec: -86400}},
			"partial": &tree.Node{Type: tree.Dir, Links: 2, Outcome: tree.Unreadable, Subtree: format.ID{}},
			"z":       []byte("the last"),
		}
	}
	r := initialise(t)
	empty := save(t, r, dir{})
	d := odd()
	d["partial"].(*tree.Node).Subtree = empty
	for _, packing := range []browse.Packing{browse.Tar, browse.Zip} {
		out, left := &bytes.Buffer{}, map[string]error{}
		a := browse.Archive{Packing: packing,
			Left: func(path string, err error) { left[path] = errors.Join(left[path], err) }}
		require.NoError(t, browse.DumpAs(t.Context(), r.LoadBlob, save(t, r, d), "/", a, out))
		require.ErrorIs(t, left["/partial"], browse.ErrPartial)
		require.ErrorIs(t, left["/attributes"], browse.ErrNotRepresentable)
		require.ErrorIs(t, left["/device"], browse.ErrNotRepresentable)
		require.Len(t, left, 3)
		if packing == browse.Zip {
			zr, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
			require.NoError(t, err)
			for _, f := range zr.File {
				if f.Name == "born" || f.Name == "before" {
					require.EqualValues(t, 1<<5|1, f.ModifiedDate, "1980, the first year there is")
				}
				if f.Name == "born" {
					require.EqualValues(t, 1, f.Modified.Unix())
				}
			}
			continue
		}
		names := map[string]*tar.Header{}
		for tr := tar.NewReader(out); ; {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			names[h.Name] = h
		}
		require.Len(t, names, 5)
		require.Contains(t, names["attributes"].PAXRecords, "SCHILY.xattr.user.a")
		require.NotContains(t, names["attributes"].PAXRecords, "SCHILY.xattr.user.b")
		require.Contains(t, names["attributes"].PAXRecords, "SCHILY.xattr.user.c")
	}
}
