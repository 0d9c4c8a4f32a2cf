package smb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/cloudsoda/go-smb2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb/session"
)

// The sentences that people see in the middle of a run.
func TestSentences(t *testing.T) {
	s := &Store{target: Target{User: "me", Host: "nas", Share: "backup", Path: "laptop"}}
	code := func(status uint32) error {
		return &fs.PathError{Op: "open", Path: `laptop\packs\ab`, Err: &smb2.ResponseError{Code: status}}
	}
	const kept = "and run the command again; what was stored so far is kept and not sent twice"
	for sentence, c := range map[string]struct {
		err  error
		kind error
	}{
		"the connection to nas was lost (EOF): check that it is up and reachable, " + kept: {
			fmt.Errorf("%w: %w", session.ErrDropped, io.EOF), store.ErrGone,
		},
		"no space left on the disk of smb://me@nas/backup/laptop (An operation failed because the disk was full): free " +
			"some space, with 'tidemark forget --repo smb://me@nas/backup/laptop --keep-daily 7 --keep-weekly 5 " +
			"--keep-monthly 12 --prune' for example, or give it a larger disk, " + kept: {
			code(session.StatusDiskFull), store.ErrNoSpace,
		},
		"nas has too much to do (device timeout): wait a little, " + kept: { // the text of that status has a blank to fill in
			code(session.StatusIOTimeout), store.ErrTemporary,
		},
		"access to smb://me@nas/backup/laptop is denied (permission denied): let this user read and write there: on the " +
			"share, and in the folder on the server's disk": {
			&fs.PathError{Op: "open", Path: "x", Err: os.ErrPermission}, store.ErrDenied,
		},
	} {
		err := s.explain(t.Context(), nil, c.err)
		require.EqualError(t, err, sentence)
		require.ErrorIs(t, err, c.kind)
		require.ErrorIs(t, err, c.err)
		require.Equal(t, err, s.explain(t.Context(), nil, err), "said once")
	}
	// In brackets stands the library's name of the status, which may change.
	for status, want := range map[uint32][2]string{
		session.StatusQuotaExceeded: {"the quota of this user is used up at smb://me@nas/backup/laptop",
			"raise it on the server, or free some space, with 'tidemark forget --repo smb://me@nas/backup/laptop " +
				"--keep-daily 7 --keep-weekly 5 " +
				"--keep-monthly 12 --prune' for example, " + kept},
		session.StatusWriteProtected: {"smb://me@nas/backup/laptop is read-only",
			"allow writing: on the share, and to the server's disk"},
		session.StatusBadNetworkName: {"the repository is not at smb://me@nas/backup/laptop any more",
			"check that the server still has the share, and its disk, " + kept},
		session.StatusDeviceNotReady: {"the repository is not at smb://me@nas/backup/laptop any more",
			"check that the server still has the share, and its disk, " + kept},
		session.StatusNetworkAccessDenied: {"this user may not use the share of smb://me@nas/backup/laptop",
			"allow it on the server"},
		session.StatusSharingViolation: {"another program has a file open in smb://me@nas/backup/laptop",
			"end it (an antivirus, an indexer, a cloud client), " + kept},
		session.StatusInsufficientResources: {"nas has too much to do", "wait a little, " + kept},
	} {
		err := s.explain(t.Context(), nil, code(status))
		var p *store.Problem
		require.ErrorAs(t, err, &p)
		require.Equal(t, want[0], p.What)
		require.Equal(t, want[1], p.Do)
		require.Regexp(t, `^[^:]*(smb://)?[^:]* \([^()\\]+\): `, err.Error(), "nothing of paths or calls")
	}
	require.EqualError(t, store.Brief(fmt.Errorf("put: %w",
		s.explain(t.Context(), nil, fmt.Errorf("%w: %w", session.ErrDropped, io.EOF)))),
		"the connection to nas was lost (EOF)")
	odd := s.explain(t.Context(), nil, code(0xC0000185)) // STATUS_IO_DEVICE_ERROR
	require.EqualError(t, odd, "nas did not do what it was asked (The I/O device reported an I/O error): look at the log "+
		"of the server, "+kept)
	require.False(t, store.Retryable(odd))
	plain := errors.New("x")
	require.Equal(t, plain, store.Brief(plain))
}
