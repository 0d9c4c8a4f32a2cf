package setup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func stored(host, user, text string) repo.Listed {
	return repo.Listed{Snapshot: &snapshot.Snapshot{Host: host, User: user, Setup: text}}
}

func TestChoose(t *testing.T) {
	all := []repo.Listed{stored("a", "ann", "1"), stored("b", "root", "2"), stored("a", "root", "3"),
		stored("a", "root", ""), {Err: errors.New("damaged")}, stored("c", "root", "")}
	for _, c := range []struct{ host, here, user, want string }{
		{"", "new", "root", ""}, {"", "a", "root", "3"}, {"a", "new", "ann", "1"}, {"a", "new", "bob", "3"},
		{"b", "a", "ann", "2"}, {"c", "a", "root", ""}, {"B", "a", "root", ""},
	} {
		found, hosts := Choose(all, c.host, c.here, c.user)
		require.Equal(t, []string{"a", "b"}, hosts)
		if c.want == "" {
			require.Nil(t, found, "%+v", c)
			continue
		}
		require.NotNil(t, found, "%+v", c)
		require.Equal(t, c.want, found.Snapshot.Setup, "%+v", c)
	}
	found, _ := Choose(all[1:2], "", "new", "root")
	require.Equal(t, "2", found.Snapshot.Setup, "the only host is the one")
	_, hosts := Choose(all[3:], "", "a", "root")
	require.Empty(t, hosts)
}
