// Package buildinfo reports which build of the program runs: version, commit and time, from the linker or from the
// build information that the go command records.
package buildinfo

import (
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/format/config"
)

// The linker sets these in a release and in a package of a distribution: -ldflags "-X .../buildinfo.version=1.2.3".
var (
	version string // without a leading v
	commit  string // full hash
	date    string // of the commit, RFC 3339
)

// unknown is the version of a build without a tag and without version control.
const unknown = "devel"

// Info describes a build. Version has no leading v. Commit and Date are empty if the build does not know them.
type Info struct {
	Version  string    `json:"version"`
	Go       string    `json:"go_version"`
	OS       string    `json:"go_os"`
	Arch     string    `json:"go_arch"`
	Commit   string    `json:"commit,omitempty"`   // full hash
	Date     time.Time `json:"date,omitzero"`      // of the commit, UTC
	Modified bool      `json:"modified,omitempty"` // true if the source differs from it
	Format   int       `json:"format_version"`     // newest repository format
}

// Read returns the description of the running program.
func Read() Info {
	recorded, ok := debug.ReadBuildInfo()
	if !ok {
		recorded = &debug.BuildInfo{}
	}
	return describe(recorded, version, commit, date)
}

// describe combines what the go command recorded with what the linker set, which wins.
func describe(recorded *debug.BuildInfo, version, commit, date string) Info {
	i := Info{Version: recorded.Main.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Format: config.Version}
	recordedDate := ""
	for _, s := range recorded.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			recordedDate = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		}
	}
	if version != "" {
		i.Version = version
	}
	if commit != "" {
		i.Commit, i.Modified, recordedDate = commit, false, ""
	}
	if date != "" {
		recordedDate = date
	}
	if at, err := time.Parse(time.RFC3339, recordedDate); err == nil {
		i.Date = at.UTC()
	}
	i.Version = strings.TrimPrefix(i.Version, "v")
	if i.Version == "" || i.Version == "(devel)" {
		i.Version = unknown
	}
	return i
}
