package restore

import (
	"os"
	"path"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/restore"
	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
	"github.com/tidemark-backup/tidemark/internal/test/testkit"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// TestWhatAppearsDuringARestoreStays: another program puts objects into an empty target, and into a directory that the
// restore has made, just before those of the snapshot come. They stay, each is a failure, and all else is restored.
func TestWhatAppearsDuringARestoreStays(t *testing.T) {
	for _, existing := range []bool{false, true} {
		dir := testkit.RamDir(t)
		src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
		large := string(testkit.Noise(1, 300_000))
		kit.Written(t, src, map[string]string{
			"dir/in": "in", "large": large, "small": "s", "other": "o", "way/dir/in": "in", "way/large": large,
			"way/small": "s", "way/other": "o",
		})
		kit.Settle()
		e := kit.NewEngine(t, nil)
		_, _, err := e.Backup(e.Job(src))
		require.NoError(t, err)
		if existing {
			require.NoError(t, os.Mkdir(dst, 0o755))
		}
		var foreign []string
		sel := restore.Selection{Sub: src, Take: func(at string, _ tree.Type) (bool, bool) {
			name, err := filepath.Rel(src, at)
			require.NoError(t, err)
			here := filepath.Join(dst, name)
			switch path.Base(name) {
			case "large", "small":
				foreign = append(foreign, here)
			case "dir":
				foreign = append(foreign, filepath.Join(here, "theirs"))
			default:
				return true, true
			}
			require.NoError(t, os.MkdirAll(filepath.Dir(foreign[len(foreign)-1]), 0o755))
			require.NoError(t, os.WriteFile(foreign[len(foreign)-1], []byte(kit.Secret), 0o644))
			return true, true
		}}
		require.NoError(t, e.RestorePart(t.Context(), sel, restore.Target{Path: dst}))
		require.Len(t, foreign, 6)
		require.Len(t, e.Failures(), 6)
		for _, failed := range e.Failures() {
			require.Contains(t, failed, "has appeared there since the restore began")
		}
		for _, at := range foreign {
			content, err := os.ReadFile(at)
			require.NoError(t, err)
			require.Equal(t, kit.Secret, string(content))
		}
		for _, name := range []string{"other", "way/other"} {
			require.FileExists(t, filepath.Join(dst, name))
		}
		for _, name := range []string{"dir/in", "way/dir/in"} {
			require.NoFileExists(t, filepath.Join(dst, name))
		}
	}
}
