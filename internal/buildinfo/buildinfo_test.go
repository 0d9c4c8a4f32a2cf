package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func recorded(version string, settings ...string) *debug.BuildInfo {
	b := &debug.BuildInfo{Main: debug.Module{Version: version}}
	for i := 0; i < len(settings); i += 2 {
		b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
	}
	return b
}

func TestDescribe(t *testing.T) {
	at := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	vcs := []string{"vcs.revision", "abc", "vcs.time", "2026-11-23T04:00:00Z", "vcs.modified", "true"}
	for name, c := range map[string]struct {
		recorded              *debug.BuildInfo
		version, commit, date string
		want                  Info
	}{
		"nothing is known":       {recorded: recorded(""), want: Info{Version: "devel"}},
		"go build without git":   {recorded: recorded("(devel)"), want: Info{Version: "devel"}},
		"go install of a module": {recorded: recorded("v1.2.3"), want: Info{Version: "1.2.3"}},
		"go build in a clone": {recorded: recorded("v1.2.3-0.2026+dirty", vcs...),
			want: Info{Version: "1.2.3-0.2026+dirty", Commit: "abc", Date: at, Modified: true}},
		"release": {recorded: recorded("(devel)", vcs...), version: "1.3.0", commit: "def", date: "2026-11-23T05:00:00+01:00",
			want: Info{Version: "1.3.0", Commit: "def", Date: at}},
		"only the version is set": {recorded: recorded("(devel)", vcs...), version: "v1.3.0",
			want: Info{Version: "1.3.0", Commit: "abc", Date: at, Modified: true}},
		"date is malformed": {recorded: recorded("v1.0.0"), commit: "def", date: "yesterday",
			want: Info{Version: "1.0.0", Commit: "def"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Go, c.want.OS, c.want.Arch, c.want.Format = runtime.Version(), runtime.GOOS, runtime.GOARCH, 1
			require.Equal(t, c.want, describe(c.recorded, c.version, c.commit, c.date))
		})
	}
	require.NotEmpty(t, Read().Version)
}
