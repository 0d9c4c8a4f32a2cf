package format_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/index"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
	"github.com/tidemark-backup/tidemark/pkg/format/seal"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// repository reads a repository in a folder with the packages below pkg/format alone.
type repository struct {
	folder string
	keys   *seal.Keys
	blobs  map[format.ID]place
	dec    *pack.Decompressor
}

// place is where a blob lies.
type place struct {
	pack   format.ID
	header *pack.Table
	frame  pack.Frame
	number int // in the frame
}

// open opens the repository in folder with a passphrase.
func open(folder string, passphrase []byte) (*repository, error) {
	stored, err := os.ReadFile(filepath.Join(folder, "config"))
	if err != nil {
		return nil, err
	}
	if _, _, err := config.Decode(stored); err != nil { // it may need a newer program
		return nil, err
	}
	r := &repository{folder: folder, blobs: map[format.ID]place{}}
	if r.keys, err = unlock(filepath.Join(folder, "keys"), passphrase); err != nil {
		return nil, err
	}
	if err := config.Verify(stored, r.keys); err != nil {
		return nil, err
	}
	r.dec = pack.NewDecompressor()
	return r, nil
}

// unlock tries a passphrase on each key slot.
func unlock(folder string, passphrase []byte) (*seal.Keys, error) {
	slots, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, entry := range slots {
		stored, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		slot, err := keyfile.Decode(stored)
		if err != nil || slot.Method != keyfile.Passphrase {
			continue // another slot may serve
		}
		if master, err := slot.Unwrap(passphrase); err == nil {
			return seal.Derive(master), nil
		}
	}
	return nil, fmt.Errorf("no key slot in %s opens with this passphrase", folder)
}

// readIndex learns from the index segments where the blobs lie.
func (r *repository) readIndex() error {
	return r.each("index", seal.IndexObject, func(_ string, plain []byte) error {
		segment, err := index.Decode(plain)
		if err != nil {
			return err
		}
		for i := range segment.Packs {
			r.add(segment.Packs[i].ID, &segment.Packs[i].Table)
		}
		return nil
	})
}

// readPacks learns the same from the packs, without the index.
func (r *repository) readPacks() error {
	files, _ := filepath.Glob(filepath.Join(r.folder, "packs", "*", "*")) // no error: the pattern is valid
	trees, _ := filepath.Glob(filepath.Join(r.folder, "trees", "*"))
	for _, path := range append(files, trees...) {
		id, err := format.ParseID(filepath.Base(path))
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		table, err := pack.OpenTable(r.keys, id, int64(len(data)), func(off int64, p []byte) error {
			copy(p, data[off:])
			return nil
		})
		if err != nil {
			return err
		}
		r.add(id, &table)
	}
	return nil
}

func (r *repository) add(id format.ID, table *pack.Table) {
	for _, frame := range table.Frames {
		for number, blob := range frame.Blobs {
			r.blobs[blob.ID] = place{id, table, frame, number}
		}
	}
}

// each opens every sealed object of a folder.
func (r *repository) each(folder string, kind seal.ObjectKind, use func(name string, plain []byte) error) error {
	entries, err := os.ReadDir(filepath.Join(r.folder, folder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		stored, err := os.ReadFile(filepath.Join(r.folder, folder, entry.Name()))
		if err != nil {
			return err
		}
		if seal.FileID(stored).String() != entry.Name() {
			return fmt.Errorf("%s/%s: %w", folder, entry.Name(), format.ErrCorrupt)
		}
		plain, err := r.keys.OpenObject(kind, stored)
		if err != nil {
			return err
		}
		if err := use(entry.Name(), plain); err != nil {
			return err
		}
	}
	return nil
}

// blob returns the blob with that ID.
func (r *repository) blob(_ context.Context, id format.ID) ([]byte, error) {
	at, ok := r.blobs[id]
	if !ok {
		return nil, fmt.Errorf("blob %s is in no pack", id)
	}
	name := at.pack.String()
	path := filepath.Join(r.folder, "packs", name[:2], name)
	if pack.KindOf(at.pack) == pack.Trees {
		path = filepath.Join(r.folder, "trees", name)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sealed := make([]byte, at.frame.Sealed)
	if _, err := f.ReadAt(sealed, int64(at.frame.Offset)); err != nil {
		return nil, err
	}
	opener := pack.NewOpener(r.keys, at.header.Kind, at.header.Salt)
	raw, lens, err := r.dec.OpenFrame(opener, at.frame.Offset, sealed, nil)
	if err != nil {
		return nil, err
	}
	for i := range at.number {
		raw = raw[lens[i]:]
	}
	raw = raw[:lens[at.number]]
	if r.keys.Hasher().ID(raw) != id {
		return nil, fmt.Errorf("blob %s: %w", id, format.ErrCorrupt)
	}
	return raw, nil
}

// restore restores the directory whose tree begins with page root into the existing folder to.
func (r *repository) restore(ctx context.Context, root format.ID, to string) error {
	return tree.Walk(ctx, r.blob, root, func(n *tree.Node) error {
		path := filepath.Join(to, n.Name)
		switch n.Type {
		case tree.Dir:
			if err := os.Mkdir(path, 0o700); err != nil {
				return err
			}
			if err := r.restore(ctx, n.Subtree, path); err != nil {
				return err
			}
		case tree.File:
			if n.Outcome == tree.Unreadable {
				return nil
			}
			if err := r.restoreFile(ctx, &n.Content, path); err != nil {
				return err
			}
			if err := os.Truncate(path, int64(n.Size)); err != nil { // a hole at the end
				return err
			}
		case tree.Symlink:
			return os.Symlink(n.Target, path)
		default:
			return nil // fifos, sockets and devices
		}
		return os.Chmod(path, fs.FileMode(n.Mode&0o777))
	})
}

func (r *repository) restoreFile(ctx context.Context, content *tree.Content, path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	var off int64
	write := func(c tree.Chunk) error {
		if c.IsHole() {
			off += int64(c.Len)
			return nil
		}
		data, err := r.blob(ctx, c.ID)
		if err == nil {
			_, err = f.WriteAt(data, off)
		}
		off += int64(len(data))
		return err
	}
	if _, err := f.Write(content.Inline); err != nil {
		return err
	}
	for _, chunk := range content.Chunks {
		if err := write(chunk); err != nil {
			return err
		}
	}
	if !content.List.IsZero() {
		if err := tree.WalkList(ctx, r.blob, content.List, write); err != nil {
			return err
		}
	}
	return f.Close()
}

// A golden repository is restored with pkg alone, once by its index and once by its packs, and equals the original.
func TestRestoreWithPkgAlone(t *testing.T) {
	golden, tree := filepath.Join("..", "..", "testdata", "repos", "v1"), t.TempDir()
	require.NoError(t, os.CopyFS(tree, os.DirFS(filepath.Join(golden, "tree"))))
	// some clones lack links
	for name, to := range map[string]string{"link": "folder/deeper/leaf", "dangling": "not/there"} {
		require.NoError(t, os.Symlink(to, filepath.Join(tree, name)))
	}
	r, err := open(filepath.Join(golden, "passphrase"), []byte("correct horse"))
	require.NoError(t, err)
	for name, learn := range map[string]func(*repository) error{"index": (*repository).readIndex,
		"packs": (*repository).readPacks} {
		t.Run(name, func(t *testing.T) {
			clear(r.blobs)
			require.NoError(t, learn(r))
			snapshots := 0
			require.NoError(t, r.each("snapshots", seal.SnapshotObject, func(_ string, plain []byte) error {
				snapshots++
				s, err := snapshot.Decode(plain)
				require.NoError(t, err)
				require.Len(t, s.Sources, 1)
				to := t.TempDir()
				require.NoError(t, r.restore(t.Context(), s.Tree, to))
				want := describe(t, tree)
				require.Greater(t, len(want), 10)
				require.Equal(t, want, describe(t, filepath.Join(to, s.Sources[0])))
				return nil
			}))
			require.Equal(t, 1, snapshots)
		})
	}
}

// Every golden repository with a passphrase is restored with pkg alone; its files are those that its list names. A
// short run takes every third: each takes 0.1 s to unlock.
func TestGoldensRestoreWithPkgAlone(t *testing.T) {
	lists, err := filepath.Glob(filepath.Join("..", "..", "testdata", "repos", "v1", "*.txt"))
	require.NoError(t, err)
	restored, step := 0, 1
	if testing.Short() {
		step = 3
	}
	for i, list := range lists {
		repo := strings.TrimSuffix(list, ".txt")
		if filepath.Base(repo) == "keyfile" || i%step > 0 {
			continue
		}
		r, err := open(repo, []byte("correct horse"))
		require.NoError(t, err, repo)
		require.NoError(t, r.readIndex(), repo)
		require.NoError(t, r.each("snapshots", seal.SnapshotObject, func(id string, plain []byte) error {
			s, err := snapshot.Decode(plain)
			require.NoError(t, err)
			to := t.TempDir()
			require.NoError(t, r.restore(t.Context(), s.Tree, to), repo)
			require.Equal(t, listed(t, list, id, to), filesBelow(t, to), "%s: snapshot %s", repo, id)
			restored++
			return nil
		}))
	}
	require.Greater(t, restored, 15/step)
}

// listed returns path, size and hash of the regular files that a list beside a golden repository has of a snapshot.
func listed(t *testing.T, list, id, restored string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	_, after, found := strings.Cut(string(text), "snapshot "+id)
	require.True(t, found, "%s does not list %s", list, id)
	head, rest, _ := strings.Cut(after, "\n")
	rest, _, _ = strings.Cut(rest, "\nsnapshot ")
	source := strings.TrimPrefix(head, ":")
	files := map[string]string{}
	for line := range strings.Lines(rest) {
		quoted, err := strconv.QuotedPrefix(line)
		require.NoError(t, err, line)
		path, err := strconv.Unquote(quoted)
		require.NoError(t, err, line)
		path = filepath.Join(source, path)
		if info, err := os.Lstat(filepath.Join(restored, source)); err == nil && info.Mode().IsRegular() {
			path = source // it is the file itself
		}
		if words := strings.Fields(line[len(quoted):]); len(words) > 6 && strings.HasPrefix(words[4], "bytes") {
			files[strings.Trim(path, "/")] = words[3] + " " + words[6]
		}
	}
	return files
}

func filesBelow(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		files[strings.TrimPrefix(path, root+"/")] = fmt.Sprintf("%d %x", len(data), sum[:16])
		return err
	}))
	return files
}

// describe returns type, executable bit and content of everything below a folder, by path.
func describe(t *testing.T, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		rel, err := filepath.Rel(root, path)
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		var content string
		switch {
		case e.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case e.Type().IsRegular():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		}
		require.NoError(t, err)
		all[rel] = fmt.Sprintf("%v %03o %q", e.Type(), info.Mode().Perm()&0o100, content)
		return nil
	}))
	return all
}
