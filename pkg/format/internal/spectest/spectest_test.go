package spectest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = `# Title
| Name | Value |
|------|-------|
| no   | 1     |

## Wanted
Some text.

| Name    | Value  | Empty |
|:--------|-------:|-------|
| ` + "`first`" + ` | 12     |       |
| second  | ` + "`0x1f`" + ` | x     |

| Another | Table |
|---------|-------|
| in the same | section |

## Empty
`

func write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "SPEC.md")
	require.NoError(t, os.WriteFile(path, []byte(sample), 0o600))
	return path
}

func TestTable(t *testing.T) {
	path := write(t)
	require.Equal(t, []Row{
		{"Name": "first", "Value": "12", "Empty": ""},
		{"Name": "second", "Value": "0x1f", "Empty": "x"},
	}, Table(t, path, "Wanted"))
	require.Equal(t, map[string]uint64{"first": 12, "second": 31}, Numbers(t, path, "Wanted", "Name", "Value"))
	require.Equal(t, map[string]string{"first": "", "second": "x"}, Texts(t, path, "Wanted", "Name", "Empty"))
}

// probe is a testing.TB that notes a failure instead of failing.
type probe struct {
	testing.TB
	failed bool
}

func (p *probe) Name() string          { return "probe" }
func (p *probe) Helper()               {}
func (p *probe) Errorf(string, ...any) { p.failed = true }
func (p *probe) FailNow()              { panic(p) }

// failed reports whether check fails the test it is given.
func failed(check func(testing.TB)) (yes bool) {
	p := &probe{}
	defer func() {
		if r := recover(); r != nil && r != any(p) {
			panic(r)
		}
		yes = p.failed
	}()
	check(p)
	return p.failed
}

// TestMissing: a table, a column or a vector that is not there must fail the test that uses it.
func TestMissing(t *testing.T) {
	path := write(t)
	for name, check := range map[string]func(testing.TB){
		"file":          func(t testing.TB) { Table(t, path+"x", "Wanted") },
		"section":       func(t testing.TB) { Table(t, path, "Unwanted") },
		"table":         func(t testing.TB) { Table(t, path, "Empty") },
		"key column":    func(t testing.TB) { Numbers(t, path, "Wanted", "Key", "Value") },
		"value column":  func(t testing.TB) { Texts(t, path, "Wanted", "Name", "Number") },
		"number":        func(t testing.TB) { Numbers(t, path, "Wanted", "Value", "Name") },
		"golden vector": func(t testing.TB) { Vector(t, "absent") },
	} {
		require.True(t, failed(check), name)
	}
	require.False(t, failed(func(t testing.TB) { Table(t, path, "Wanted") }))
}

func TestFlipBits(t *testing.T) {
	data := []byte{0, 0xff}
	seen := map[string]bool{}
	FlipBits(data, func(i int, mutated []byte) {
		require.NotEqual(t, data[i], mutated[i])
		require.Equal(t, data[1-i], mutated[1-i])
		seen[string(mutated)] = true
	})
	bits := 16
	if testing.Short() {
		bits = len(data)
	}
	require.Len(t, seen, bits)
	require.Equal(t, []byte{0, 0xff}, data)
}
