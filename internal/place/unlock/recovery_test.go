package unlock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// recoveryKey returns a new recovery key and its last group.
func recoveryKey(t *testing.T) (key, group string) {
	t.Helper()
	key, _ = keyfile.NewRecoveryKey()
	return key, key[len(key)-4:]
}

func TestRecoveryKeyIsPendingUntilConfirmed(t *testing.T) {
	key, group := recoveryKey(t)
	_, wrong := recoveryKey(t)
	s := &Sources{Machine: filepath.Join(t.TempDir(), "keys")}
	p := s.Pending("1234")
	require.False(t, p.Exists())
	require.ErrorIs(t, p.Confirm(group), ErrNotPending)
	require.NoError(t, p.Record(key))
	require.True(t, p.Exists())
	require.False(t, s.Pending("5678").Exists(), "another repository")

	content, err := os.ReadFile(string(p))
	require.NoError(t, err)
	require.NotContains(t, string(content), group, "the file does not show what is asked for")
	info, err := os.Stat(string(p))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	if wrong != group {
		require.ErrorIs(t, p.Confirm(wrong), ErrOtherKey)
	}
	require.ErrorIs(t, p.Confirm("?"), keyfile.ErrMistyped)
	require.True(t, p.Exists(), "a wrong answer confirms nothing")
	require.NoError(t, p.Confirm(group))
	require.False(t, p.Exists())
}

func TestNewRecoveryKeyReplacesThePendingOne(t *testing.T) {
	old, _ := recoveryKey(t)
	key, _ := recoveryKey(t)
	p := (&Sources{Machine: t.TempDir()}).Pending("1234")
	require.NoError(t, p.Record(old))
	require.NoError(t, p.Record(key))
	require.ErrorIs(t, p.Confirm(old), ErrOtherKey)
	require.NoError(t, p.Confirm(key), "the whole key confirms too")
}

// A user without a home directory has no place for the record.
func TestNothingIsPendingWithoutFolder(t *testing.T) {
	key, group := recoveryKey(t)
	p := (&Sources{}).Pending("1234")
	require.NoError(t, p.Record(key))
	require.False(t, p.Exists())
	require.ErrorIs(t, p.Confirm(group), ErrNotPending)
	require.NoError(t, p.Remove())
}
