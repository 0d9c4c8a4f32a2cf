package smb_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

func TestTwoSignsMayHideAPassword(t *testing.T) {
	for _, text := range []string{"smb://root@S3CRETpw@h/x", "smb://root@h/x@y", "smb://a@b@c@h/x"} {
		_, err := smb.Parse(text)
		require.ErrorIs(t, err, smb.ErrTarget)
		require.ErrorContains(t, err, "password")
		require.NotContains(t, err.Error(), "S3CRETpw")
	}
}

func TestTheShareWithoutFiles(t *testing.T) {
	_, err := smb.Parse("smb://u@h/ipc$/new")
	require.ErrorIs(t, err, smb.ErrTarget)
	require.ErrorContains(t, err, "holds no files; name another one")
}
