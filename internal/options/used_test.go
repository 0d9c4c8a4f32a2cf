package options

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every option has an effect: a method of Spec reads it, and another package uses the field that holds its value.
func TestEveryOptionIsUsed(t *testing.T) {
	spec := reflect.TypeFor[*Spec]()
	rest := sources(t, "..", func(path string) bool { return !strings.HasPrefix(path, "../options/") })
	own := sources(t, ".", func(path string) bool {
		return !slices.Contains([]string{"table.go", "share.go", "from.go", "job.go"}, path)
	}) + optionMethods(t)
	for _, o := range Table() {
		if o.Sysctl == "" && o.Group != GroupFrom { // read by a loop over their names
			require.Contains(t, own, `"`+o.Name+`"`, "no method reads it")
		}
	}
	for i := range spec.NumMethod() {
		for j := range spec.Method(i).Type.NumOut() {
			out := spec.Method(i).Type.Out(j)
			if out.Kind() != reflect.Struct || !strings.HasSuffix(out.PkgPath(), "internal/options") {
				continue
			}
			for k := range out.NumField() {
				field := regexp.MustCompile(`\.` + out.Field(k).Name + `\b`)
				require.Regexp(t, field, rest, "%s.%s is not used", out.Name(), out.Field(k).Name)
			}
		}
	}
}

// optionMethods returns the part of share.go and from.go below the tables.
func optionMethods(t *testing.T) (text string) {
	for _, name := range []string{"share.go", "from.go", "job.go"} {
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		_, below, _ := strings.Cut(string(content), "\n}\n")
		text += below
	}
	return text
}

// sources returns the Go files below a folder that a filter selects, without tests.
func sources(t *testing.T, folder string, selected func(path string) bool) string {
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || !selected(path) {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	}))
	return all.String()
}
