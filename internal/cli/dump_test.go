package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store/local"
	"github.com/tidemark-backup/tidemark/internal/test/testkit/stored"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// A file that is named as the target of a dump stays until another is whole, and what is no file is never taken away.
func TestDumpIntoWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, writeErr := io.WriteString(w, text)
			return errors.Join(writeErr, err)
		}
	}
	a := &app{}
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("precious"), 0o640))
	require.NoError(t, os.Chmod(file, 0o640))
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("file", link))
	for _, target := range []string{file, link} {
		require.ErrorIs(t, a.into(target, write("half of it", broken)), broken)
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, "precious", string(got))
		require.NoError(t, a.into(target, write("precious", nil)))
		info, err := os.Lstat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), info.Mode())
	}
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "file", to)
	require.ErrorIs(t, a.into(filepath.Join(dir, "new"), write("x", broken)), broken)
	require.Error(t, a.into(dir, write("x", nil)))
	require.Error(t, a.into(filepath.Join(dir, "none/new"), write("x", nil)))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "nothing is left behind")

	device := filepath.Join(dir, "null")
	if err := unix.Mknod(device, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		t.Skipf("make a device: %v", err)
	}
	require.ErrorIs(t, a.into(device, write("x", broken)), broken)
	require.NoError(t, a.into(device, write("x", nil)))
	info, err := os.Lstat(device)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeDevice)
}

// An archive that lacks what the snapshot lacks is not the end of a dump that went well, however quiet.
func TestDumpOfWhatTheSnapshotLacks(t *testing.T) {
	dir := t.TempDir()
	st, err := local.Create(filepath.Join(dir, "repository"), nil)
	require.NoError(t, err)
	r := stored.Init(t, st)
	stored.Save(t, r, 1, stored.Dir{
		"whole": stored.Dir{"f": []byte("f")},
		"file": stored.Dir{"f": []byte("f"),
			"gone": &tree.Node{Type: tree.File, Links: 1, Size: 3, Outcome: tree.Unreadable}},
	})
	key := filepath.Join(dir, "key")
	text, secret := keyfile.NewSecretFile()
	require.NoError(t, os.WriteFile(key, text, 0o600))
	_, err = r.AddSlot(t.Context(), repo.Secret{Method: keyfile.KeyFile, Value: secret}, "test", keyfile.Params{})
	require.NoError(t, err)
	dump := func(path, form string) (code int, reported string, size int64) {
		to := filepath.Join(dir, "archive")
		_, reported, code = ran(t.Context(), t, t.TempDir(), "dump", "--quiet", "--no-cache", "-r", st.Location(),
			"--key-file", key, "--archive", form, "--target", to, "latest:"+path)
		info, err := os.Lstat(to)
		require.NoError(t, err)
		require.NoError(t, os.Remove(to))
		return code, reported, info.Size()
	}
	for _, form := range []string{"tar", "zip"} {
		code, reported, _ := dump("/whole", form)
		require.Equal(t, exitOK, code, reported)
		code, reported, size := dump("/file", form)
		require.Equal(t, exitFailed, code)
		require.Contains(t, reported, "lacks the content of 1 object")
		require.NotZero(t, size, "what there is, is there")
	}
}

// Binary data does not reach a terminal, whatever its length; text does, and what comes after it.
func TestDumpOfBinaryDataOnATerminal(t *testing.T) {
	for _, long := range []int{1, 1 << 20} {
		var out bytes.Buffer
		write := func(text []byte) error {
			return buffered(&textOnly{to: &out}, func(w io.Writer) error { _, err := w.Write(text); return err })
		}
		require.ErrorIs(t, write(bytes.Repeat([]byte("a\x00"), long)), errBinary)
		require.Zero(t, out.Len())
		require.NoError(t, write(bytes.Repeat([]byte("ab"), long)))
		require.Equal(t, 2*long, out.Len())
	}
}
