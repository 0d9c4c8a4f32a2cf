package restore

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// volume is a directory whose file system finds a name by what alike makes of it, and lists it as stored makes it.
type volume struct {
	alike, stored func(string) string
	names         []string
	listed        int
}

func (v *volume) Lstat(name string, _ *localfs.Stat) error {
	if slices.ContainsFunc(v.names, func(there string) bool { return v.alike(there) == v.alike(name) }) {
		return nil
	}
	return localfs.ErrVanished
}

func (v *volume) Entries(_ []byte, yield func(name []byte, typ tree.Type, ino uint64) error) error {
	v.listed++
	for _, name := range v.names {
		if err := yield([]byte(name), tree.File, 1); err != nil {
			return err
		}
	}
	return nil
}

// restored returns the names that a restore of names makes in v, and those that it refuses for another name.
func restored(t *testing.T, v *volume, names []string) (made, refused []string) {
	t.Helper()
	d := &dir{}
	for _, name := range names {
		if v.Lstat(name, nil) == nil {
			first, err := d.clash(v, name, func(yield func(string)) error {
				for _, one := range names {
					yield(one)
				}
				return nil
			})
			require.NoError(t, err)
			if first != "" {
				refused = append(refused, name)
				continue
			}
		} else {
			v.names = append(v.names, v.stored(name))
		}
		made = append(made, name)
	}
	return made, refused
}

// TestNamesThatOnlyComposeLettersInOtherWays: the file systems of macOS find both spellings of é, and the second of two
// files would take the place of the first.
func TestNamesThatOnlyComposeLettersInOtherWays(t *testing.T) {
	same := func(name string) string { return name }
	names := []string{"cafe\u0301", "caf\u00e9", "CAFE\u0301", "A\u030a", "\u00c5", "\u212b", "alone", "\u00fcber"}
	lower := func(name string) string { return norm.NFD.String(strings.ToLower(name)) }
	for kind, one := range map[string]struct {
		alike, stored func(string) string
		refused       int
	}{
		"APFS, case-sensitive": {norm.NFD.String, same, 3}, // of café one, of Å two
		"APFS":                 {lower, same, 4},           // and CAFÉ
		"HFS+":                 {lower, norm.NFD.String, 4},
		"ext4":                 {same, same, 0},
		"exFAT":                {strings.ToLower, same, 2}, // CAFÉ, and one Å
	} {
		for seed := range uint64(200) {
			order := rand.New(rand.NewPCG(seed, 1))
			order.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			v := &volume{alike: one.alike, stored: one.stored}
			made, refused := restored(t, v, names)
			require.GreaterOrEqual(t, len(refused), one.refused, "%s: %q", kind, names)
			if kind == "ext4" || kind == "APFS" || kind == "HFS+" { // elsewhere one may be refused in doubt
				require.Len(t, refused, one.refused, "%s: %q", kind, names)
			}
			require.LessOrEqual(t, len(refused), one.refused+2, "%s: %q", kind, names)
			again, _ := restored(t, v, names)
			for _, made := range [][]string{made, again} {
				places := map[string]bool{}
				for _, name := range made {
					require.False(t, places[one.alike(name)], "%s: %q took the place of another one of %q", kind, name, names)
					places[one.alike(name)] = true
				}
			}
			require.Less(t, v.listed, 20, "%s: a directory is not listed for each name", kind)
		}
	}
}
