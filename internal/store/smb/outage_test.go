package smb_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// TestShareIsBackBeforeItsDisk: a server restarts, and offers its share before the disk is mounted. That is one outage,
// in one line, and the operation continues when the disk is there.
func TestShareIsBackBeforeItsDisk(t *testing.T) {
	t.Parallel()
	s := smbtest.Start(t, smbtest.Config{})
	var reported, back atomic.Int64
	st := create(t, target(s, ""), smb.Options{Patience: smb.Patience{
		Notify: func(error) { reported.Add(1) }, Back: func() { back.Add(1) },
	}})
	require.NoError(t, st.Put(t.Context(), pack(1), []byte("x")))
	smb.Settle(st)
	s.Kill()
	require.NoError(t, os.Rename(s.Folder, s.Folder+".away"))
	s.Run()
	probe, err := smb.Open(t.Context(), target(s, ""), smb.Options{Credentials: password(smbtest.Password)})
	require.ErrorContains(t, err, "has no share", "%v", probe)
	done := make(chan error, 1)
	go func() { done <- st.Put(t.Context(), pack(2), []byte("x")) }()
	outlast(time.Second)
	require.Empty(t, done)
	require.NoError(t, os.Rename(s.Folder+".away", s.Folder))
	require.NoError(t, <-done)
	require.EqualValues(t, 1, reported.Load())
	require.EqualValues(t, 1, back.Load())
}
