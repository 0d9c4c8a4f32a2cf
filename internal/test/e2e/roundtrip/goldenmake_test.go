package roundtrip

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	g.run(nil, "init")
	fill(g)
	g.run(nil, "check", "--read-data")
	require.NoError(t, os.WriteFile(kept+".txt", []byte(g.manifest()), 0o644))
	require.NoError(t, os.CopyFS(kept, os.DirFS(g.repo)))
	require.NoError(t, os.WriteFile(filepath.Join(goldenDir, "SUMS"), []byte(goldenSums(t)), 0o644))
}

// plainLinks is the part of the golden tree that archives and some clones of this project do not keep.
func plainLinks() testkit.Dir {
	return testkit.Dir{
		"link":     testkit.Symlink{Target: "folder/deeper/leaf"},
		"dangling": testkit.Symlink{Target: "not/there"},
	}
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
