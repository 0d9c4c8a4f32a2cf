package roundtrip

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// addGolden writes a golden repository, its list, and their sums.
func addGolden(t *testing.T, name string) {
	testkit.RequireRoot(t) // devices and owners
	kept, fill := filepath.Join(goldenDir, name), makers()[name]
	require.NotNil(t, fill, "nothing makes a repository %s", name)
	require.NoFileExists(t, kept+".txt", "a golden repository is written once")
	require.NoError(t, os.RemoveAll(goldenSource))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(goldenSource)) })
	g := openGolden(t, name)
	if name == "chunks" {
		g.run(nil, "init", "--chunk-size", "16K")
	} else {
		g.run(nil, "init")
	}
	fill(g)
	g.run(nil, "check", "--read-data")
	require.NoError(t, os.WriteFile(kept+".txt", []byte(g.manifest()), 0o644))
	require.NoError(t, os.CopyFS(kept, os.DirFS(g.repo)))
	require.NoError(t, os.WriteFile(filepath.Join(goldenDir, "SUMS"), []byte(goldenSums(t)), 0o644))
}

// plainTree holds files, directories and symbolic links.
func plainTree() testkit.Dir {
	tree := plainFiles()
	maps.Copy(tree, plainLinks())
	return tree
}

// plainLinks is the part of plainTree that archives and some clones of this project do not keep.
func plainLinks() testkit.Dir {
	return testkit.Dir{
		"link":     testkit.Symlink{Target: "folder/deeper/leaf"},
		"dangling": testkit.Symlink{Target: "not/there"},
	}
}

// plainFiles is the part of plainTree that testdata keeps.
func plainFiles() testkit.Dir {
	return testkit.Dir{
		"empty":     testkit.File{},
		"small.txt": testkit.File{Data: []byte("kept inside its directory\n")},
		"text.txt":  testkit.File{Data: testkit.Text(1, 20_000)},
		"noise.bin": testkit.File{Data: testkit.Noise(2, 10_000)},
		"run.sh":    testkit.File{Data: []byte("#!/bin/sh\necho restored\n"), Mode: 0o755},
		"folder": testkit.Dir{
			"copy.txt": testkit.File{Data: testkit.Text(1, 20_000)},
			"deeper":   testkit.Dir{"leaf": testkit.File{Data: []byte("leaf\n")}},
		},
		"Größe 😀":    testkit.File{Data: []byte("a name in UTF-8\n")},
		"with space": testkit.File{Data: []byte("a name with a space\n")},
	}
}

// everyObject holds each type of object, and each way in which the format keeps a content: none, inside the node, one
// chunk, many chunks, a list of chunks in pages of its own, and holes.
func everyObject() testkit.Dir {
	at := time.Unix(1_700_000_000, 123_456_789)
	segments := map[int64][]byte{}
	for i := range int64(48) {
		segments[i*2*(16<<10)] = testkit.Text(5, 16<<10)
	}
	names := testkit.Dir{}
	for i := range 900 {
		names[fmt.Sprintf("entry-%04d", i)] = testkit.File{Data: []byte(strconv.Itoa(i)), Mtime: at}
	}
	return testkit.Dir{
		"empty":        testkit.File{Mtime: at},
		"inline":       testkit.File{Data: []byte("a few bytes"), Mtime: at},
		"one chunk":    testkit.File{Data: testkit.Text(3, 9000), Mtime: at},
		"some chunks":  testkit.File{Data: slices.Repeat(testkit.Text(4, 16<<10), 256), Mtime: at},
		"list":         testkit.With{Of: testkit.Sparse{Size: 96 * (16 << 10), Data: segments}, Mtime: at},
		"only a hole":  testkit.With{Of: testkit.Sparse{Size: 3 << 20}, Mtime: at},
		"name":         testkit.File{Data: testkit.Noise(6, 300), Mtime: at},
		"another name": testkit.Hardlink{To: "name"},
		"link":         testkit.With{Of: testkit.Symlink{Target: "\xff not UTF-8"}, Mtime: at},
		"fifo":         testkit.With{Of: testkit.Fifo{}, Mode: 0o640, Mtime: at},
		"socket":       testkit.With{Of: testkit.Socket{}, Mode: 0o755, Mtime: at},
		"char device":  testkit.With{Of: testkit.Device{Major: 1, Minor: 3}, Mode: 0o666, Mtime: at},
		"block device": testkit.With{Of: testkit.Device{Block: true, Major: 7, Minor: 300}, Mode: 0o660, Mtime: at},
		"owner":        testkit.With{Of: testkit.File{}, Owner: &testkit.Owner{UID: 12345, GID: 54321}, Mtime: at},
		"attributes": testkit.With{Of: testkit.File{}, Xattrs: map[string]string{"user.note": "kept", "user.empty": ""},
			Mtime: at},
		"acl": testkit.With{
			Of: testkit.File{Data: []byte("x")}, Mtime: at,
			Xattrs: map[string]string{"system.posix_acl_access": testkit.PosixACL(12345, 6)},
		},
		"setuid":       testkit.File{Data: []byte("x"), Mode: 0o4755, Mtime: at},
		"before 1970":  testkit.File{Data: []byte("x"), Mtime: time.Unix(-1, 5)},
		"name \xfe\n":  testkit.File{Data: []byte("x"), Mtime: at},
		"empty folder": testkit.With{Of: testkit.Dir{}, Mode: 0o700, Mtime: at},
		"many":         testkit.With{Of: names, Mtime: at},
	}
}

// levels makes a snapshot at each level of compression, and one that is stored as it is.
func levels(g *golden) {
	for i, flag := range []string{"off", "1", "2", "3", "4"} {
		option := "--compression-level=" + flag
		if flag == "off" {
			option = "--compression=off"
		}
		content := testkit.Dir{"text": testkit.File{Data: testkit.Text(uint64(20+i), 12_000)}}
		g.backup(fmt.Sprintf("2026-01-01 10:%02d", i), "level-"+flag, content, option)
	}
}

// versions makes three snapshots of one path: most of a pack of the first is needed by none of the others.
func (g *golden) versions() {
	for i := range 3 {
		g.backup(fmt.Sprintf("2026-01-%02d 10:00", i+1), "versions", testkit.Dir{
			"stays":   testkit.File{Data: testkit.Text(30, 5000)},
			"changes": testkit.File{Data: testkit.Noise(uint64(40+i), 15_000)},
			"folder":  testkit.Dir{fmt.Sprintf("of %d", i): testkit.File{Data: testkit.Text(uint64(50+i), 3000)}},
		})
	}
}

// forget drops all but the last two versions.
func (g *golden) forget() {
	g.run(nil, "forget", "--keep-last", "2", "--path", goldenSource+"/versions")
}

// marked is a repository as a prune leaves it while a backup is running on another machine: with a deletion mark, and
// with the lease of a writer that was killed.
func marked(g *golden) {
	g.versions()
	in, feed := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.run(in, "backup", "--host", "other", "--stdin", "--no-cache")
	}()
	_, err := feed.Write([]byte("the backup has begun\n"))
	require.NoError(g.t, err)
	require.Eventually(g.t, func() bool { return len(g.files("leases")) > 0 }, time.Minute, 10*time.Millisecond)
	g.forget()
	g.run(nil, "prune", "--max-unused", "0%")
	require.NotEmpty(g.t, g.files("marks"), "the prune left no mark")
	copied := g.repo + "-copy"
	require.NoError(g.t, os.CopyFS(copied, os.DirFS(g.repo)))
	require.NoError(g.t, feed.Close())
	<-ended
	require.NoError(g.t, os.RemoveAll(g.repo))
	require.NoError(g.t, os.Rename(copied, g.repo))
}

// snapshots holds what a snapshot can say: several sources, one of them missing, tags and a description; one that got a
// tag later, one without an object, one of standard input, and one that was published before its source was read to its
// end.
func snapshots(g *golden) {
	one, two := filepath.Join(goldenSource, "one"), filepath.Join(goldenSource, "two")
	testkit.Write(g.t, one, testkit.Dir{"a": testkit.File{Data: testkit.Text(60, 4000)}, "b": testkit.File{}})
	testkit.Write(g.t, two, testkit.Dir{"c": testkit.File{Data: testkit.Text(61, 4000)}})
	both := []string{"backup", "--host", "golden", "--tag", "a,b", "--description", "two sources", one, two}
	g.run(nil, append(both, "--time", "2026-01-01 10:00")...)
	require.NoError(g.t, os.RemoveAll(two))
	code, _, report := g.exec(context.Background(), nil, append(both, "--time", "2026-01-02 10:00")...)
	require.Equal(g.t, 3, code, report)
	g.run(nil, "tag", "--add", "later", "latest")
	g.run(nil, "rewrite", "--exclude", "b", "latest")
	g.run(strings.NewReader("from a pipe"), "backup", "--host", "golden", "--stdin", "--time", "2026-01-03 10:00")
	require.NoError(g.t, os.RemoveAll(one))
	g.partial()
}

// partial ends a first backup once its first partial snapshot is there.
func (g *golden) partial() {
	src, had := filepath.Join(goldenSource, "partial"), len(g.files("snapshots"))
	files := testkit.Dir{}
	for i := range 2000 {
		files[fmt.Sprint(i)] = testkit.Dir{
			"file": testkit.File{Data: []byte(fmt.Sprint("file ", i))}}
	}
	testkit.Write(g.t, src, files)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan int)
	go func() {
		code, _, _ := g.exec(ctx, nil, "backup", "--host", "golden", "--checkpoint", "20ms", src)
		ended <- code
	}()
	require.Eventually(g.t, func() bool { return len(g.files("snapshots")) > had }, time.Minute, time.Millisecond)
	cancel()
	require.NotZero(g.t, <-ended)
	require.NoError(g.t, os.RemoveAll(src))
}

// repaired lost a frame of a pack, and a file with it: its index has a pack with a gap, its snapshot was made again.
func repaired(g *golden) {
	g.versions()
	var largest string
	var size int64
	find := func(path string, d fs.DirEntry, err error) error {
		if info, e := d.Info(); err == nil && e == nil && !d.IsDir() && info.Size() > size {
			largest, size = path, info.Size()
		}
		return err
	}
	require.NoError(g.t, filepath.WalkDir(filepath.Join(g.repo, "packs"), find))
	data, err := os.ReadFile(largest)
	require.NoError(g.t, err)
	data[200] ^= 1
	require.NoError(g.t, os.Chmod(largest, 0o600))
	require.NoError(g.t, os.WriteFile(largest, data, 0o600))
	for _, args := range [][]string{{"check", "--read-data"}, {"repair", "packs"}} {
		code, _, _ := g.exec(context.Background(), nil, args...)
		require.NotZero(g.t, code, "%v", args)
	}
	g.run(nil, "repair", "snapshots")
}

// slots is opened by a passphrase, a key file and a recovery key.
func slots(g *golden) {
	g.backup("2026-01-01 10:00", "tree", plainTree())
	key := filepath.Join(goldenDir, "slots.key")
	require.NoError(g.t, os.RemoveAll(key))
	g.run(nil, "key", "add", "--new-key-file", key)
	_, out, report := g.exec(context.Background(), nil, "key", "recovery")
	shown := regexp.MustCompile(`(?m)^ +([0-9A-Z]{4}(?:-[0-9A-Z]{4})+)$`).FindStringSubmatch(out + report)
	require.NotNil(g.t, shown, out+report)
	require.NoError(g.t, os.WriteFile(filepath.Join(goldenDir, "slots.recovery"), []byte(shown[1]+"\n"), 0o600))
}

// files returns the names in a folder of the repository.
func (g *golden) files(folder string) []os.DirEntry {
	entries, err := os.ReadDir(filepath.Join(g.repo, folder))
	if !os.IsNotExist(err) {
		require.NoError(g.t, err)
	}
	return entries
}

// list describes everything below dir, a line each: path, mode, owner, modification time, and what its type adds.
func list(t *testing.T, dir string) (lines []string) {
	t.Helper()
	first := map[uint64]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		line, err := describe(path, rel, first)
		lines = append(lines, line)
		return err
	}))
	return lines
}

// describe returns the line of one object.
func describe(path, rel string, first map[uint64]string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("no status of %s", path)
	}
	line := []string{
		strconv.Quote(rel), info.Mode().String(), fmt.Sprintf("%d:%d", st.Uid, st.Gid),
		info.ModTime().UTC().Format(time.RFC3339Nano),
	}
	switch {
	case info.Mode().IsRegular():
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		line = append(line, fmt.Sprintf("%d bytes, sha256 %.16x", len(data), sha256.Sum256(data)))
		if st.Nlink > 1 && first[st.Ino] != "" {
			line = append(line, "same as "+strconv.Quote(first[st.Ino]))
		}
		first[st.Ino] = rel
		return strings.Join(append(line, attributes(path)...), " "), nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return strings.Join(append(line, "to "+strconv.Quote(to)), " "), err
	case info.Mode()&fs.ModeDevice != 0:
		line = append(line, fmt.Sprintf("device %d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))))
	}
	return strings.Join(line, " "), nil
}

// attributes lists the extended attributes that a test restores on any file system that takes them.
func attributes(path string) (all []string) {
	for _, name := range []string{"user.note", "user.empty", "system.posix_acl_access"} {
		value := make([]byte, 256)
		if n, err := unix.Lgetxattr(path, name, value); err == nil {
			all = append(all, fmt.Sprintf("%s=%x", name, value[:n]))
		}
	}
	return all
}

// portable returns what of a list this user and this platform can restore. Root on Linux restores all of it. Others
// restore contents: of each line the name, the size and the digest of a regular file are kept.
func portable(lists string) string {
	if os.Geteuid() == 0 && runtime.GOOS == "linux" {
		return lists
	}
	var kept []string
	for line := range strings.Lines(lists) {
		name, err := strconv.QuotedPrefix(line)
		_, content, isFile := strings.Cut(line, " bytes, ")
		if err == nil && isFile && utf8.ValidString(unquoted(name)) {
			kept = append(kept, name+" "+strings.Fields(content)[1])
		}
	}
	slices.Sort(kept)
	return strings.Join(kept, "\n")
}

func unquoted(name string) string {
	plain, _ := strconv.Unquote(name) // it is what list quoted
	return plain
}
