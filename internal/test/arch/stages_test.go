package arch

import (
	"strings"
	"testing"
)

// stages are the packages of the backup's flow.
const stages = "internal/backup/"

// crossed finds imports of the backup's stages from outside, and of one stage by another. All may import scan for its
// directories and entries.
func crossed(files []*file) []string {
	var out []string
	for _, f := range files {
		if f.test() || within(f.dir(), testFolders()) || within(f.dir(), tools()) || f.dir() == "internal/backup" {
			continue
		}
		inside := strings.HasPrefix(f.dir(), stages)
		for _, pkg := range f.imports() {
			if strings.HasPrefix(pkg, stages) && pkg != f.dir() && !(inside && pkg == stages+"scan") {
				out = append(out, f.path+" imports "+pkg+", which only internal/backup may")
			}
		}
	}
	return out
}

func TestOnlyTheFlowKnowsTheStages(t *testing.T) {
	none(t, crossed(goFiles(sources(t), false)))
}

func TestCrossingStages(t *testing.T) {
	for path, imports := range map[string]string{
		"internal/cli/x.go":         "internal/backup/scan",
		"internal/backup/read/x.go": "internal/backup/save",
	} {
		if len(crossed([]*file{parse(t, path, "package x\nimport _ \""+module+"/"+imports+"\"\n")})) != 1 {
			t.Errorf("%s must not import %s", path, imports)
		}
	}
	for path, imports := range map[string]string{
		"internal/backup/x.go":           "internal/backup/save",
		"internal/backup/read/x.go":      "internal/backup/scan",
		"internal/backup/read/x_test.go": "internal/backup/save",
	} {
		none(t, crossed([]*file{parse(t, path, "package x\nimport _ \""+module+"/"+imports+"\"\n")}))
	}
}
