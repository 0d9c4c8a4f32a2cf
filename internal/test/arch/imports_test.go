package arch

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testFolders hold code that only tests run. They may import anything but cmd. Only tests and each other import them.
func testFolders() []string {
	return []string{"internal/test", "pkg/format/internal/spectest"}
}

// tools are the benchmarks. Only the program cmd/tidemark-bench imports them.
func tools() []string { return []string{"internal/bench", "cmd/tidemark-bench"} }

// within reports whether a package lies at or below one of some folders.
func within(pkg string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return pkg == folder || strings.HasPrefix(pkg, folder+"/")
	})
}

// layer returns the folder that has a floor: "internal/store" of "internal/store/local", "pkg", "cmd".
func layer(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return "internal/" + parts[1]
	}
	return parts[0]
}

// floors reads the line of the design that defines the direction of imports: the floor of each, 0 at the bottom.
func floors(design string) (map[string]int, error) {
	line := regexp.MustCompile("(?m)^Imports point down: (.*)$").FindStringSubmatch(design)
	if line == nil {
		return nil, fmt.Errorf("docs/design.md: no line \"Imports point down: ...\"")
	}
	floor := map[string]int{}
	for i, names := range strings.Split(line[1], " < ") {
		list := regexp.MustCompile("`([^`]+)`").FindStringSubmatch(names)
		if list == nil {
			return nil, fmt.Errorf("docs/design.md: no layers in %q", names)
		}
		for _, name := range strings.Fields(list[1]) {
			if name != "pkg" && name != "cmd" {
				name = "internal/" + name
			}
			floor[name] = i
		}
	}
	return floor, nil
}

// upward finds imports that do not point down.
func upward(files []*file, floor map[string]int) []string {
	var out []string
	for _, f := range files {
		from := layer(f.dir())
		if f.test() || within(f.dir(), testFolders()) || within(f.dir(), tools()) {
			continue
		}
		if _, known := floor[from]; !known {
			out = append(out, fmt.Sprintf("%s: %s has no floor; give it one in docs/design.md", f.path, from))
			continue
		}
		for _, pkg := range f.imports() {
			switch to := layer(pkg); {
			case !within(pkg, []string{"cmd", "internal", "pkg"}): // not of this module
			case within(pkg, testFolders()):
				out = append(out, fmt.Sprintf("%s imports %s, which is for tests", f.path, pkg))
			case within(pkg, tools()):
				out = append(out, fmt.Sprintf("%s imports %s, which is a tool", f.path, pkg))
			case from != to && floor[to] >= floor[from]:
				out = append(out, fmt.Sprintf("%s (floor %d) imports %s (floor %d)", f.path, floor[from], pkg, floor[to]))
			}
		}
	}
	return out
}

func TestImportsPointDown(t *testing.T) {
	all := sources(t)
	floor, err := floors(string(named(t, all, "docs/design.md").text))
	require.NoError(t, err)
	none(t, upward(goFiles(all, false), floor))
}

func TestImportLawFindsBreaches(t *testing.T) {
	floor, err := floors("Imports point down: `pkg` < `store` < `repo` < verbs `backup restore` < `cli` < `cmd`.\n")
	require.NoError(t, err)
	require.Equal(t, map[string]int{
		"pkg": 0, "internal/store": 1, "internal/repo": 2, "internal/backup": 3, "internal/restore": 3, "internal/cli": 4,
		"cmd": 5,
	}, floor)
	for at, imported := range map[string]string{
		"pkg/format/x.go":         "internal/store",
		"internal/store/x.go":     "internal/repo/session",
		"internal/restore/x.go":   "internal/backup",
		"internal/backup/x.go":    "internal/test/testkit",
		"internal/cli/x.go":       "internal/bench/peers",
		"internal/unheard/x.go":   "pkg/format",
		"internal/repo/object.go": "cmd/tidemark",
	} {
		f := parse(t, at, "package x\nimport _ \""+module+"/"+imported+"\"\n")
		require.Len(t, upward([]*file{f}, floor), 1, "%s imports %s", at, imported)
	}
	for at, imported := range map[string]string{
		"internal/backup/x.go":          "internal/repo",
		"internal/store/local/local.go": "internal/store",
		"internal/backup/x_test.go":     "internal/test/testkit",
	} {
		f := parse(t, at, "package x\nimport _ \""+module+"/"+imported+"\"\n")
		require.Empty(t, upward([]*file{f}, floor), "%s imports %s", at, imported)
	}
	_, err = floors("nothing about imports")
	require.Error(t, err)
}
