package job

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// array returns a property list of arrays of strings.
func array(keys map[string][]string) []byte {
	var b strings.Builder
	b.WriteString(`<plist version="1.0"><dict>`)
	for key, values := range keys {
		b.WriteString("<key>" + key + "</key><array>")
		for _, value := range values {
			b.WriteString("<string>" + value + "</string>")
		}
		b.WriteString("</array>")
	}
	return []byte(b.String() + "</dict></plist>")
}

func TestExclusionsOfTimeMachineAreReadLive(t *testing.T) {
	refused := errors.New("exit status 1")
	settings := array(map[string][]string{
		"SkipPaths":     {"/Users/ann/Movies", "~/Downloads", "~bob/VMs", "relative", "~"},
		"ExcludeByPath": {"/Applications/Big.app"}, "ExcludedVolumeUUIDs": {"ABCD-1"}})
	asked := map[string]int{}
	m := &Mac{Homes: []string{"/Users/ann", "/Users/bob"}, Mounts: []string{"/", "/Volumes/USB", "/Volumes/Work"},
		Run: func(program string, args ...string) ([]byte, error) {
			asked[program]++
			switch last := args[len(args)-1]; {
			case program == "/usr/bin/defaults":
				return settings, nil
			case last == "/Volumes/USB":
				return []byte("<plist><dict><key>VolumeUUID</key><string>abcd-1</string></dict></plist>"), nil
			case last == "/Volumes/Work":
				return []byte("<plist><dict><key>VolumeUUID</key><string>other</string></dict></plist>"), nil
			}
			return nil, refused
		}}
	paths, err := m.TimeMachineExclusions()
	require.NoError(t, err)
	require.Subset(t, paths, []string{
		"/Users/ann/Movies", "/Users/ann/Downloads", "/Users/bob/VMs", "/Users/bob/Downloads",
		"/Applications/Big.app", "/Volumes/USB", "/Users/ann/Library/Caches", "/private/var/vm/*"})
	for _, kept := range []string{"/Users/ann", "/Users/ann/VMs", "/Volumes/Work", "/", "relative", "/Volumes/*"} {
		require.NotContains(t, paths, kept)
	}
	require.Equal(t, 2, asked["/usr/sbin/diskutil"])

	// The file of Apple counts where there is one.
	inner := m.Run
	m.Run = func(program string, args ...string) ([]byte, error) {
		if program == "/usr/bin/plutil" {
			return array(map[string][]string{"PathsExcluded": {"/.Old"}, "ContentsExcluded": {"/tmp", "/Volumes"},
				"UserPathsExcluded": {"Library/Old"}}), nil
		}
		return inner(program, args...)
	}
	settings = array(nil)
	paths, err = m.TimeMachineExclusions()
	require.NoError(t, err)
	require.Equal(t, []string{"/.Old", "/Users/ann/Library/Old", "/Users/bob/Library/Old", "/tmp/*"}, paths)
	require.Equal(t, 2, asked["/usr/sbin/diskutil"], "not asked without an excluded volume")

	// Without permission, only the settings are not known.
	m.Run = func(string, ...string) ([]byte, error) { return nil, refused }
	paths, err = m.TimeMachineExclusions()
	require.ErrorIs(t, err, refused)
	require.Contains(t, paths, "/Users/bob/.Trash")
}
