package browse_test

import (
	"bytes"
	"encoding/binary"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// extracted is a directory with what a program makes of the archive of d.
func extracted(t *testing.T, r *repo.Repository, d dir, program ...string) string {
	t.Helper()
	testkit.RequireTool(t, program[0])
	var out bytes.Buffer
	require.NoError(t, browse.DumpAs(t.Context(), r.LoadBlob, save(t, r, d), "/", browse.Archive{}, &out))
	to := testkit.TempDir(t)
	cmd := exec.CommandContext(t.Context(), program[0], append(program[1:], "-xpf", "-", "-C", to)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8") // bsdtar converts names to the locale
	cmd.Stdin = &out
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	require.Empty(t, string(said))
	return to
}

// extractors are the programs that archives are made for.
var extractors = map[string][]string{"GNU tar": {"tar", "--acls", "--numeric-owner"},
	"libarchive": {"bsdtar", "--acls", "--numeric-owner"}}

func acl(entries ...[3]uint32) []byte {
	p := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range entries {
		p = binary.LittleEndian.AppendUint16(p, uint16(e[0]))
		p = binary.LittleEndian.AppendUint16(p, uint16(e[1]))
		p = binary.LittleEndian.AppendUint32(p, e[2])
	}
	return p
}

// TestTarKeepsACLs: other programs find the ACLs in the archive, also those of users without an account.
func TestTarKeepsACLs(t *testing.T) {
	testkit.RequireRoot(t)
	const none = 1<<32 - 1
	access := acl([3]uint32{1, 6, none}, [3]uint32{2, 7, 4711}, [3]uint32{4, 4, none}, [3]uint32{8, 6, 12345},
		[3]uint32{0x10, 7, none}, [3]uint32{0x20, 1, none})
	inherited := acl([3]uint32{1, 7, none}, [3]uint32{2, 5, 4711}, [3]uint32{4, 0, none}, [3]uint32{0x10, 5, none},
		[3]uint32{0x20, 0, none})
	file := &tree.Node{Type: tree.File, Mode: 0o671, Links: 1,
		Xattrs: []tree.Xattr{{Name: "system.posix_acl_access", Value: access}}}
	sub := &tree.Node{Type: tree.Dir, Mode: 0o750, Links: 2,
		Xattrs: []tree.Xattr{{Name: "system.posix_acl_default", Value: inherited}}}
	r := initialise(t)
	sub.Subtree = save(t, r, dir{})
	for name, program := range extractors {
		t.Run(name, func(t *testing.T) {
			to := extracted(t, r, dir{"file": file, "sub": sub}, program...)
			for path, want := range map[string][]byte{"file": access, "sub": inherited} {
				attr := map[string]string{"file": "system.posix_acl_access", "sub": "system.posix_acl_default"}[path]
				got := make([]byte, 256)
				n, err := unix.Lgetxattr(filepath.Join(to, path), attr, got)
				if err == unix.EOPNOTSUPP {
					t.Skip("no ACLs here")
				}
				require.NoError(t, err, path)
				require.Equal(t, want, got[:n], path)
			}
		})
	}
}

// TestTarKeepsHoles: other programs make a sparse file of a sparse file, with the same content.
func TestTarKeepsHoles(t *testing.T) {
	const mib = 1 << 20
	noise := stored.Noise(3, 300_000)
	files := map[string]holed{
		"in the middle":  {noise[:1000], noise[1000:1100], 50 * mib, noise[2000:2500]},
		"at the end":     {noise[:4096], 8 << 30},
		"at the start":   {20 * mib, noise},
		"many":           {},
		"nothing else":   {30 * mib},
		"no hole at all": {noise[:7], noise[7:9]},
	}
	for i := range 300 {
		files["many"] = append(files["many"], noise[i*900:i*900+900], 1*mib)
	}
	d := dir{"before": []byte("one byte more than a block" + strings.Repeat(".", 500))}
	for name, f := range files {
		d["s "+name] = f
	}
	var deep any = files["in the middle"]
	for range 40 {
		deep = dir{"long": deep}
	}
	for name, program := range extractors {
		t.Run(name, func(t *testing.T) {
			deepName := "deep \xe4"
			if name == "libarchive" {
				deepName = "deep ä" // it extracts no names that are not UTF-8
			}
			d := maps.Clone(d)
			d[deepName] = deep
			to := extracted(t, initialise(t), d, program...)
			for name, pieces := range files {
				path := filepath.Join(to, "s "+name)
				requirePieces(t, path, pieces)
				var st syscall.Stat_t
				require.NoError(t, syscall.Stat(path, &st))
				require.Less(t, st.Blocks*512, int64(3*mib), "%s: its holes take space", name)
			}
			require.FileExists(t, filepath.Join(to, "before"))
			requirePieces(t, filepath.Join(to, deepName, strings.Repeat("/long", 40)), files["in the middle"])
		})
	}
	d["deep \xe4"] = deep
	t.Run("archive/tar", func(t *testing.T) {
		delete(d, "s at the end") // 8 GiB of zeros
		out, _ := dumped(t, d, "/", browse.Archive{})
		require.Less(t, out.Len(), 3*mib)
	})
}

// requirePieces compares a file with what it was made of.
func requirePieces(t *testing.T, path string, pieces holed) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	at := int64(0)
	for _, piece := range pieces {
		switch v := piece.(type) {
		case int:
			const slack = 1 << 16 // a hole begins and ends with a block of the file system
			next, err := f.Seek(at+slack, unix.SEEK_DATA)
			if err == nil {
				require.Greater(t, next, at+int64(v)-slack, "%s: data in the hole at %d", path, at)
			}
			at += int64(v)
		case []byte:
			got := make([]byte, len(v))
			_, err := f.ReadAt(got, at)
			require.NoError(t, err)
			require.True(t, string(v) == string(got), "%s at %d", path, at)
			at += int64(len(v))
		}
	}
	info, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, at, info.Size(), path)
}
