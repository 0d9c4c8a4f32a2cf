package setup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

func stored(id byte, host, user, job, text string) repo.Listed {
	return repo.Listed{ID: format.ID{id}, Snapshot: &snapshot.Snapshot{Host: host, User: user, Job: job, Setup: text,
		Sources: []string{"/" + host}}}
}

func texts(all []repo.Listed) (out []string) {
	for _, one := range all {
		out = append(out, one.Snapshot.Setup)
	}
	return out
}

func TestChoose(t *testing.T) {
	all := []repo.Listed{stored(1, "a", "ann", "", "1"), stored(2, "b", "root", "", "2"),
		stored(3, "a", "root", "home", "3"),
		stored(4, "a", "ann", "", "4"), stored(5, "a", "root", "home", ""), stored(6, "c", "root", "", ""),
		{Err: errors.New("damaged")}}
	for _, c := range []struct {
		wish   Wish
		want   string
		others []string
	}{
		{Wish{Here: "new", User: "root"}, "", nil},
		{Wish{Here: "a", User: "root"}, "3", []string{"4"}},
		{Wish{Host: "a", Here: "new", User: "ann"}, "4", []string{"3"}},
		{Wish{Host: "a", Here: "new", User: "bob"}, "4", []string{"3"}},
		{Wish{Host: "b", Here: "a", User: "ann"}, "2", nil},
		{Wish{Host: "c", Here: "a", User: "root"}, "", nil},
		{Wish{Host: "B", Here: "a", User: "root"}, "", nil},
		{Wish{Snapshot: "02", Here: "a", User: "root"}, "2", nil},
		{Wish{Snapshot: "01", Here: "new", User: "root"}, "1", []string{"3"}},
		{Wish{Snapshot: "06", Here: "a", User: "root"}, "", nil},
	} {
		got := c.wish.Choose(all)
		require.Equal(t, []string{"a", "b"}, got.Hosts)
		require.Len(t, got.Unread, 1)
		if c.want == "" {
			require.Nil(t, got.Snapshot, "%+v", c)
			continue
		}
		require.NotNil(t, got.Snapshot, "%+v", c)
		require.Equal(t, c.want, got.Snapshot.Snapshot.Setup, "%+v", c)
		require.Equal(t, c.others, texts(got.Others), "%+v", c)
	}
	found := (&Wish{Here: "new", User: "root"}).Choose(all[1:2])
	require.Equal(t, "2", found.Snapshot.Snapshot.Setup, "the only host is the one")
	require.Empty(t, (&Wish{Here: "a"}).Choose(all[4:]).Hosts)
}

func TestEachSetOfSourcesHasItsNewestSnapshot(t *testing.T) {
	var all []repo.Listed
	for i, sources := range []string{"/photos", "/docs", "/photos", "/new", "/new"} {
		one := stored(byte(i+1), "a", "ann", "", "x")
		one.Snapshot.Sources = []string{sources}
		all = append(all, one)
	}
	all[4].Snapshot.Partial, all[1].Snapshot.Partial = true, true
	var ids []byte
	for _, one := range (&Wish{Here: "a"}).Choose(all).Sources {
		ids = append(ids, one.ID[0])
	}
	require.Equal(t, []byte{2, 3, 4}, ids, "a partial one only where there is no other")
}

// One user may have two option files: one whose jobs the other does not have is named, and one without jobs is the last
// choice.
func TestOtherOptionFilesAreNamed(t *testing.T) {
	const mine, grown, service = "SERVERNAME mine\n  SCHEDULE never\n",
		"SERVERNAME mine\n  SCHEDULE hourly\nSERVERNAME more\n", "SERVERNAME sys\n  SCHEDULE never\n"
	all := []repo.Listed{stored(1, "a", "root", "sys", service), stored(2, "a", "root", "mine", mine),
		stored(3, "a", "root", "mine", grown), stored(4, "a", "root", "", "EXCLUDEPATTERN *.o\n")}
	c := (&Wish{Here: "a", User: "root"}).Choose(all)
	require.Equal(t, grown, c.Snapshot.Snapshot.Setup)
	require.Equal(t, []string{service}, texts(c.Others))
}
