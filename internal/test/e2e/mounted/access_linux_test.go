package mounted

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/internal/view"
)

// TestOthersReadWhatTheyMay: with AllowOther, other users read what they could in the source, by modes and by ACLs;
// otherwise nothing.
func TestOthersReadWhatTheyMay(t *testing.T) {
	testkit.RequireRoot(t)
	src := testkit.TempDir(t)
	for dir := src; strings.HasPrefix(dir, filepath.Clean(os.TempDir())+"/"); dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	const friend, group, stranger = 4001, 4002, 4003
	kit.Written(t, src, map[string]string{"acl": "for a friend", "private": "secret", "public": "news"})
	at := func(name string) string { return filepath.Join(src, name) }
	require.NoError(t, os.Chown(at("acl"), 0, group))
	require.NoError(t, os.Chmod(at("acl"), 0o600))
	// The friend may read, and the group not, although the mode says so.
	if err := unix.Setxattr(at("acl"), "system.posix_acl_access", aclFor(friend), 0); err != nil {
		t.Skip("needs a file system with ACLs")
	}
	require.NoError(t, os.Chmod(at("private"), 0o600))
	require.NoError(t, os.Chmod(at("public"), 0o644))
	e := saved(t, src)
	read := func(dir, name string, id uint32) string {
		cat := exec.Command("cat", filepath.Join(dir, name))
		cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
		out, _ := cat.Output() // what may not be read is empty
		return string(out)
	}
	for _, others := range []bool{true, false} {
		m := mountFor(t, e, others)
		require.NoError(t, os.Chmod(filepath.Dir(m.dir), 0o755))
		some := 0
		for _, id := range []uint32{friend, group, stranger} {
			for _, name := range []string{"acl", "private", "public"} {
				want := ""
				if others {
					want = read(src, name, id)
				}
				require.Equal(t, want, read(m.latest(src), name, id), "%s by %d, others: %v", name, id, others)
				require.Equal(t, others && (name == "public" || name == "acl" && id == friend), want != "", name)
				some += len(want)
			}
		}
		require.Equal(t, others, some > 0)
	}
}

// aclFor returns the ACL of a file that one more user may read, and the group not.
func aclFor(user uint32) []byte {
	acl := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{1, 6, 1<<32 - 1}, {2, 4, user}, {4, 0, 1<<32 - 1}, {0x10, 4, 1<<32 - 1}, {0x20, 0, 1<<32 - 1}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	return acl
}

// TestListingAsksForOneAttributeOfEachFile: ls -l asks for the ACLs, which it shows, and for the label
// of the first file only.
func TestListingAsksForOneAttributeOfEachFile(t *testing.T) {
	testkit.RequireRoot(t)
	const files = 50
	src := testkit.TempDir(t)
	for i := range files {
		kit.Written(t, src, map[string]string{fmt.Sprint(i): "content"})
	}
	if err := unix.Setxattr(filepath.Join(src, "30"), "system.posix_acl_access", aclFor(4001), 0); err != nil {
		t.Skip("needs a file system with ACLs")
	}
	var asked atomic.Int64
	m := mountRoot(t, saved(t, src), false, func(r *repo.Repository) view.Entry {
		root := folderOf(t, r, src)
		root.Folder = countedFolder{root.Folder, &asked}
		return root
	})
	for range 2 {
		asked.Store(0)
		out, err := exec.Command("ls", "-l", m.dir).Output()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(out), "+ "), string(out))
		require.LessOrEqual(t, asked.Load(), int64(files+1))
	}
	_, err := unix.Getxattr(filepath.Join(m.dir, "1"), "user.absent", nil)
	require.ErrorIs(t, err, unix.ENODATA)
}

// countedFolder counts how often an entry is read by its number: by each request about a file that is known.
type countedFolder struct {
	view.Folder
	asked *atomic.Int64
}

func (f countedFolder) Entry(ctx context.Context, number uint64) (view.Entry, error) {
	f.asked.Add(1)
	return f.Folder.Entry(ctx, number)
}

// folderOf returns a folder of the newest snapshot.
func folderOf(t *testing.T, r *repo.Repository, path string) view.Entry {
	t.Helper()
	found, err := r.FindSnapshot(t.Context(), "latest", repo.Filter{})
	require.NoError(t, err)
	n, err := browse.Resolve(t.Context(), r.LoadBlob, found.Snapshot.Tree, path)
	require.NoError(t, err)
	return view.NewTrees(r.LoadBlob).Root(found.ID, n)
}

// TestRootHasTheModeOfItsDirectory: a private directory that is mounted by itself stays private.
func TestRootHasTheModeOfItsDirectory(t *testing.T) {
	testkit.RequireRoot(t)
	src := testkit.TempDir(t)
	kit.Written(t, src, map[string]string{"private/public": "news"})
	require.NoError(t, os.Chmod(filepath.Join(src, "private"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(src, "private", "public"), 0o644))
	e := saved(t, src)
	m := mountRoot(t, e, true, func(r *repo.Repository) view.Entry {
		return folderOf(t, r, filepath.Join(src, "private"))
	})
	got, err := os.ReadFile(filepath.Join(m.dir, "public"))
	require.NoError(t, err)
	require.Equal(t, "news", string(got))
	require.NoError(t, os.Chmod(filepath.Dir(m.dir), 0o755))
	cat := exec.Command("cat", filepath.Join(m.dir, "public"))
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4003, Gid: 4003}}
	require.Error(t, cat.Run(), "another user reads a file of a private directory")
}
