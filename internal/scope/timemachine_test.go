package scope

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/job"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/rules"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// What Time Machine excludes by path (its settings, a volume, Apple's list) is kept if it is named, or contains what
// is named; and it is left out of every other source.
func TestANamedSourceIsKeptDespiteTimeMachine(t *testing.T) {
	m := &job.Mac{Homes: []string{"/Users/ann"}, Mounts: []string{"/", "/Volumes/USB"},
		Run: func(program string, args ...string) ([]byte, error) {
			switch {
			case program == "/usr/bin/defaults":
				return []byte(`<plist version="1.0"><dict>
					<key>SkipPaths</key><array><string>/Users/ann/Movies</string><string>~/VMs</string></array>
					<key>ExcludeByPath</key><array><string>/Applications/Big.app</string></array>
					<key>ExcludedVolumeUUIDs</key><array><string>ABCD</string></array></dict></plist>`), nil
			case program == "/usr/sbin/diskutil":
				return []byte(`<plist><dict><key>VolumeUUID</key><string>ABCD</string></dict></plist>`), nil
			}
			return nil, errors.New("exit status 1")
		}}
	excluded, err := m.TimeMachineExclusions()
	require.NoError(t, err)
	require.Subset(t, excluded, []string{"/Users/ann/Movies", "/Users/ann/VMs", "/Applications/Big.app", "/Volumes/USB",
		"/private/tmp/*", "/Users/ann/Library/Caches"})
	env := func(string) (string, bool) { return "", false }
	spec, _, err := options.Resolve(nil, env, func(path string) ([]byte, error) { return nil, fs.ErrNotExist })
	require.NoError(t, err)
	verdict := func(path string, sources ...string) rules.Verdict {
		set, _, err := spec.Rules(os.ReadFile, env, func(b *rules.Builder) { require.NoError(t, leaveOut(b, m, sources)) })
		require.NoError(t, err)
		return set.Explain(rules.Query{Path: path, Type: tree.Dir}).Verdict
	}
	for _, one := range excluded {
		folder, contents := strings.CutSuffix(one, "/*")
		within := filepath.Join(folder, "one", "two")
		require.Equal(t, rules.Exclude, verdict(within, "/"), "%s in another source", one)
		require.Equal(t, rules.Include, verdict(within, folder), "%s is named", one)
		require.Equal(t, rules.Include, verdict(within, within), "what is in %s is named", one)
		require.Equal(t, rules.Include, verdict(within, "/", folder), "%s is named too", one)
		if !contents {
			require.Equal(t, rules.Include, verdict(folder, folder), one)
			require.Equal(t, rules.Exclude, verdict(folder, filepath.Dir(folder)), one)
		}
		require.Equal(t, rules.Exclude, verdict(within, folder+"2"), "%s: another name", one)
	}
}
