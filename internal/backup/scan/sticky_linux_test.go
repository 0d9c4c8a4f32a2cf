package scan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// found records what a walk finds.
type found struct {
	mu       sync.Mutex
	names    []string
	excluded int
}

func (f *found) Directory(_ context.Context, d *Directory, _ *report.Clock) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range d.Entries {
		f.names = append(f.names, d.Entries[i].Name)
	}
	return d.Err
}

func (f *found) Entry(_ *Directory, name string, err error) { panic(fmt.Sprint(name, err)) }

func (f *found) Excluded(_ *Directory, n int) {
	f.mu.Lock()
	f.excluded += n
	f.mu.Unlock()
}

// TestStickyExclusionsCostOneOperationForManyEntries: on macOS each operation opens, changes and resets the working
// directory of a thread.
func TestStickyExclusionsCostOneOperationForManyEntries(t *testing.T) {
	const attr, files = "user.sticky", 100
	root := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "folder", "inside"), 0o755))
	require.NoError(t, os.Symlink("f0", filepath.Join(root, "link")))
	want := []string{"link"}
	for i := range files {
		name := fmt.Sprintf("f%d", i)
		require.NoError(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
		switch {
		case i%7 == 0:
			require.NoError(t, unix.Setxattr(filepath.Join(root, name), attr, []byte("bplist00_com.apple.backupd"), 0))
		case i%7 == 1:
			require.NoError(t, unix.Setxattr(filepath.Join(root, name), attr, []byte("another program"), 0))
			fallthrough
		default:
			want = append(want, name)
		}
	}
	require.NoError(t, unix.Setxattr(filepath.Join(root, "folder"), attr, []byte("com.apple.backupd"), 0))
	operations := map[bool]uint64{}
	for _, on := range []bool{false, true} {
		b := rules.NewBuilder()
		if on {
			b.Flag(rules.TimeMachine, "default")
		}
		gate := iopolicy.New(iopolicy.Config{Name: "test", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
		pass := gate.Pass(iopolicy.NewClient(iopolicy.Important))
		pick, err := Sources([]string{root})
		require.NoError(t, err)
		for len(pick.Children) > 0 {
			pick = pick.Children[0]
		}
		f := &found{}
		require.NoError(t, Walk(t.Context(), pick, Options{Workers: 1, Rules: b.Compile(), Ledger: report.New(time.Now),
			View: View{Sticky: attr}, Gate: func(*localfs.Dir, string) *iopolicy.Pass { return pass }}, f))
		operations[on] = gate.Stats().Operations
		if on {
			slices.Sort(want)
			slices.Sort(f.names)
			require.Equal(t, want, f.names)
			require.Equal(t, files+2-len(want), f.excluded)
		} else {
			require.Len(t, f.names, files+3)
		}
	}
	require.Less(t, operations[true], operations[false]+files/2, "no operation for each entry")
}

// What a person named is not left out by the attribute, whether it is a folder, a file, or lies in another source.
func TestNamedSourcesAreKeptDespiteTheStickyAttribute(t *testing.T) {
	const attr = "user.sticky"
	root := filepath.Join(t.TempDir(), "root")
	at := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"folder/inner", "other"} {
		require.NoError(t, os.MkdirAll(at(dir), 0o755))
	}
	for _, name := range []string{"folder/file", "folder/inner/deep", "other/file"} {
		require.NoError(t, os.WriteFile(at(name), nil, 0o644))
	}
	for _, name := range []string{"folder", "folder/inner", "folder/file", "other", "other/file"} {
		require.NoError(t, unix.Setxattr(at(name), attr, []byte("com.apple.backupd"), 0))
	}
	all := []string{"deep", "file", "folder", "inner", "other"}
	for name, c := range map[string]struct{ sources, want []string }{
		"not named":            {[]string{""}, []string{}},
		"a folder":             {[]string{"folder"}, []string{"folder"}},
		"a folder within":      {[]string{"folder/inner"}, []string{"deep", "folder", "inner"}},
		"a file":               {[]string{"folder/file"}, []string{"file", "folder"}},
		"within and without":   {[]string{"", "folder/inner"}, []string{"deep", "folder", "inner"}},
		"a folder of a source": {[]string{"", "folder"}, []string{"folder"}},
		"a file of a source":   {[]string{"", "other", "other/file"}, []string{"file", "other"}},
	} {
		b := rules.NewBuilder()
		b.Flag(rules.TimeMachine, "default")
		var sources []string
		for _, source := range c.sources {
			sources = append(sources, at(source))
		}
		b.Name(sources)
		pick, err := Sources(sources)
		require.NoError(t, err)
		f := &found{}
		require.NoError(t, Walk(t.Context(), pick, Options{Workers: 1, Rules: b.Compile(), Ledger: report.New(time.Now),
			View: View{Sticky: attr}, Gate: func(*localfs.Dir, string) *iopolicy.Pass { return nil }}, f))
		slices.Sort(f.names)
		got := slices.DeleteFunc(f.names, func(name string) bool { return !slices.Contains(all, name) })
		require.Equal(t, c.want, got, name)
	}
}
