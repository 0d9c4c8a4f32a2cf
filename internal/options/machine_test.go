package options

import (
	"io/fs"
	"os"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// machine is everything options are read from.
type machine struct {
	args  []string
	env   map[string]string
	files map[string]string
}

func (m machine) lookup(name string) (string, bool) {
	if name == "HOME" && m.env["HOME"] == "" {
		return "/home/me", true
	}
	value, ok := m.env[name]
	return value, ok
}

func (m machine) read(path string) ([]byte, error) {
	if content, ok := m.files[path]; ok {
		return []byte(content), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (m machine) resolve(t *testing.T) (*Spec, []Warning, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	Register(flags)
	require.NoError(t, flags.Parse(m.args))
	return resolve(flags, m.lookup, m.read, "linux")
}

func (m machine) spec(t *testing.T) *Spec {
	t.Helper()
	spec, _, err := m.resolve(t)
	require.NoError(t, err)
	return spec
}

// file is a machine whose only source is an option file.
func file(content string) machine {
	return machine{files: map[string]string{"/etc/tidemark/tidemark.opt": content}}
}

// row returns value and origin of an option as listed.
func row(t *testing.T, spec *Spec, name string) (value, origin string) {
	t.Helper()
	for _, e := range spec.Effective() {
		if e.Name == name {
			return e.Value, e.Origin
		}
	}
	require.Fail(t, "no option", name)
	return "", ""
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	return string(content)
}
