package device

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/localfs"
)

func TestNumbered(t *testing.T) {
	k, _, _, _, _ := machine(t)
	numbers(k)
	s, _, ok := k.byNumber(number(8, 1))
	require.True(t, ok)
	require.Equal(t, "sda@3", s.complete("").Key)
	_, _, ok = k.byNumber(number(77, 7))
	require.False(t, ok, "not shown here")
	_, _, ok = k.byNumber(number(0, 9999))
	require.False(t, ok, "made up by the kernel")
	_, err := Numbered(number(0, 1<<19))
	require.ErrorIs(t, err, ErrNumber)
}

func TestNumberedMatchesThePath(t *testing.T) {
	name, point := loopDevice(t, "/dev/shm", "ext4", 32<<20)
	d, err := localfs.OpenDir(point)
	require.NoError(t, err)
	defer d.Release()
	st, err := d.Fstat()
	require.NoError(t, err)
	info, err := Numbered(st.Dev)
	require.NoError(t, err)
	require.Equal(t, []string{name}, info.Disks)
	require.Equal(t, of(t, point).Key, info.Key)

	shm, err := localfs.OpenDir("/dev/shm")
	require.NoError(t, err)
	defer shm.Release()
	st, err = shm.Fstat()
	require.NoError(t, err)
	info, err = Numbered(st.Dev)
	require.NoError(t, err)
	require.Equal(t, Memory, info.Medium)
	require.False(t, Overlaps(info, of(t, point)))
}
