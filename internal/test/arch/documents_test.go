package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// documents returns the texts among all.
func documents(all []*file) []*file {
	return slices.DeleteFunc(slices.Clone(all), func(f *file) bool { return path.Ext(f.path) != ".md" })
}

// exists reports whether a path of the repository, which may hold a *, is there.
func exists(at string) bool {
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(at)))
	return err == nil && len(found) > 0
}

// deadLinks finds links inside the repository that lead nowhere: to no file, or to no heading of one.
func deadLinks(docs []*file, exists func(string) bool) []string {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headings := map[string][]string{}
	for _, f := range docs {
		headings[f.path] = anchors(f)
	}
	var out []string
	for _, f := range docs {
		for _, found := range link.FindAllSubmatch(f.text, -1) {
			to := string(found[1])
			if regexp.MustCompile(`^[a-z]+:`).MatchString(to) {
				continue // outside
			}
			name, anchor, _ := strings.Cut(to, "#")
			at := f.path
			if name != "" {
				at = path.Join(f.dir(), name)
			}
			if !exists(at) {
				out = append(out, fmt.Sprintf("%s links to %s, which does not exist", f.path, to))
			} else if known, ok := headings[at]; ok && anchor != "" && !slices.Contains(known, anchor) {
				out = append(out, fmt.Sprintf("%s links to %s, and there is no such heading", f.path, to))
			}
		}
	}
	return out
}

// anchors returns the names under which a document's headings can be linked to.
func anchors(f *file) []string {
	var out []string
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllSubmatch(f.text, -1) {
		name := drop.ReplaceAllString(strings.ToLower(string(heading[1])), "")
		out = append(out, strings.ReplaceAll(name, " ", "-"))
	}
	return out
}

func TestLinksLeadSomewhere(t *testing.T) {
	none(t, deadLinks(documents(sources(t)), exists))
	docs := []*file{
		text("docs/a.md", "[b](b.md) [x](../x) [h](b.md#one-two) [s](#own) [w](https://example.org/b.md)\n# Own\n"),
		text("docs/b.md", "# One, `two`\n[gone](c.md)\n[gone](a.md#else)\n"),
	}
	there := func(at string) bool { return slices.Contains([]string{"docs/a.md", "docs/b.md", "x"}, at) }
	require.Len(t, deadLinks(docs, there), 2)
}

// ghosts finds paths in documents that look as if they were of this repository and are not there.
func ghosts(docs []*file, exists func(string) bool) []string {
	name := regexp.MustCompile("(^|[\\s`(,])((?:cmd|internal|pkg|docs)/[A-Za-z0-9_./*-]*[A-Za-z0-9*/])")
	var out []string
	for _, f := range docs {
		for _, found := range name.FindAllSubmatch(f.text, -1) {
			at := string(found[2])
			if !exists(at) {
				out = append(out, fmt.Sprintf("%s speaks of %s, which does not exist", f.path, at))
			}
		}
	}
	return out
}

func TestDocumentsSpeakOfWhatExists(t *testing.T) {
	none(t, ghosts(documents(sources(t)), exists))
	docs := []*file{text("README.md", "`internal/store/` and pkg/gone/x.go, `docs/*.txt`; not other/pkg/gone")}
	there := func(at string) bool { return at == "internal/store/" || at == "docs/*.txt" }
	require.Equal(t, []string{"README.md speaks of pkg/gone/x.go, which does not exist"}, ghosts(docs, there))
}

// undecided finds decision records that are out of order, incomplete, or not in the index.
func undecided(docs []*file, index string) []string {
	var out []string
	number := 0
	for _, f := range docs { // in the order of their names
		name := path.Base(f.path)
		if f.dir() != "docs/adr" || name == "README.md" {
			continue
		}
		number++
		if !strings.HasPrefix(name, fmt.Sprintf("%04d-", number)) ||
			!bytes.HasPrefix(f.text, fmt.Appendf(nil, "# %d. ", number)) {
			out = append(out, fmt.Sprintf("%s: should be number %d, in its name and its title", f.path, number))
		}
		for what, pattern := range map[string]string{
			"Status": `(?m)^Status: \w+`, "Context": `(?m)^## (Context|Question)$`, "Decision": `(?m)^## Decision$`,
			"Consequences": `(?m)^## Consequences$`,
		} {
			if !regexp.MustCompile(pattern).Match(f.text) {
				out = append(out, f.path+": no "+what)
			}
		}
		if !strings.Contains(index, "("+strings.TrimPrefix(f.path, "docs/")+")") {
			out = append(out, f.path+": not in docs/README.md")
		}
	}
	return out
}

func TestDecisionsAreComplete(t *testing.T) {
	all := sources(t)
	none(t, undecided(documents(all), string(named(t, all, "docs/README.md").text)))
	good := "# 1. A\n\nStatus: accepted\n\n## Context\n## Decision\n## Consequences\n"
	require.Empty(t, undecided([]*file{text("docs/adr/0001-a.md", good)}, "[a](adr/0001-a.md)"))
	require.Len(t, undecided([]*file{text("docs/adr/0002-a.md", "# 2. A\n")}, ""), 6)
}

// unlisted finds documents that are unreachable from the index.
func unlisted(docs []*file, index *file) []string {
	var out []string
	for _, f := range docs {
		rel := strings.TrimPrefix(f.path, "docs/")
		generated := strings.HasPrefix(rel, "cli/")
		if f != index && rel != f.path && !generated && !bytes.Contains(index.text, []byte("("+rel+")")) {
			out = append(out, f.path+": not in "+index.path)
		}
	}
	return out
}

func TestIndexListsEveryDocument(t *testing.T) {
	all := sources(t)
	none(t, unlisted(documents(all), named(t, all, "docs/README.md")))
	index := text("docs/README.md", "[a](a.md)")
	require.Len(t, unlisted([]*file{index, text("docs/a.md", ""), text("docs/b.md", ""), text("x.md", "")}, index), 1)
}

// TestContinuousIntegrationRunsTheCommandOfTheReadme holds .ci/run to what a reader of the README does.
func TestContinuousIntegrationRunsTheCommandOfTheReadme(t *testing.T) {
	all := sources(t)
	readme := string(named(t, all, "README.md").text)
	block := regexp.MustCompile("(?s)Run the tests:\n\n```\n(.*?)\n```").FindStringSubmatch(readme)
	require.NotNil(t, block, "README.md names no command that runs the tests")
	require.NotContains(t, block[1], "\n", "one command")
	run := string(named(t, all, ".ci/run").text)
	lines := strings.Split(strings.TrimSpace(run), "\n")
	require.Equal(t, block[1], lines[len(lines)-1], ".ci/run ends with the README's command")
	require.Contains(t, run, "set -euo pipefail")
	info, err := os.Stat(filepath.Join(root, ".ci/run"))
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&0o100, ".ci/run is executable")
}

// invented finds figures in a section of a document that another document does not have. Whole numbers of one
// or two digits do not count.
func invented(section, measured string) (out []string) {
	for _, figure := range regexp.MustCompile(`\d+\.\d+|\d{1,3}( \d{3})+|\d{3,}`).FindAllString(section, -1) {
		if !strings.Contains(measured, figure) {
			out = append(out, figure)
		}
	}
	return out
}

// TestReadmeQuotesMeasurements holds the figures of the README to docs/measurements/2026-11-28-peers.md.
func TestReadmeQuotesMeasurements(t *testing.T) {
	all := sources(t)
	_, section, found := strings.Cut(string(named(t, all, "README.md").text), "\n## As measured\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	measured := string(named(t, all, "docs/measurements/2026-11-28-peers.md").text)
	require.Greater(t, len(regexp.MustCompile(`\d+\.\d+`).FindAllString(section, -1)), 8)
	require.Empty(t, invented(section, measured))
	require.Equal(t, []string{"2.19", "22 251"}, invented("2.18, 2.19, 22 250, 22 251, 121", measured))
}

// TestMakeKnowsEveryFuzzTarget compares what make fuzz would run with the targets there are.
func TestMakeKnowsEveryFuzzTarget(t *testing.T) {
	tool, err := exec.LookPath("make")
	if err != nil {
		t.Skip("needs make")
	}
	var want []string
	for _, f := range goFiles(sources(t), true) {
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Fuzz") {
				want = append(want, "./"+f.dir()+" "+fn.Name.Name)
			}
		}
	}
	require.NotEmpty(t, want)
	slices.Sort(want)
	cmd := exec.Command(tool, "-s", "-C", root, "--no-print-directory", "fuzz-list")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(got)
	require.Equal(t, want, got)
}
