package smb_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

func TestRaceOfTwoProcesses(t *testing.T) {
	storetest.Race(t, func() string {
		s := smbtest.Start(t, smbtest.Config{})
		return fmt.Sprintf("%s %d", s.User, s.Port)
	}, func(t *testing.T, place string) store.Store {
		at := smb.Target{Host: "127.0.0.1", Share: smbtest.Share, Path: "race"}
		_, err := fmt.Sscan(place, &at.User, &at.Port)
		require.NoError(t, err)
		return create(t, at, smb.Options{})
	})
}

func target(s *smbtest.Server, path string) smb.Target {
	return smb.Target{User: s.User, Host: "127.0.0.1", Port: s.Port, Share: smbtest.Share, Path: path}
}

func password(p string) func(context.Context) (smb.Secret, error) {
	return func(context.Context) (smb.Secret, error) { return smb.Secret{Password: p}, nil }
}

// of are as many connections at most.
func of(sessions int) smb.Parallel { return smb.Parallel{Sessions: sessions} }

// create makes a repository folder on a server. Unset patience is short, so that a test fails soon. The first
// connection is tried again: a store has no patience with it, and a busy server may need more than the short time of a
// test.
func create(t testing.TB, at smb.Target, o smb.Options) *smb.Store {
	t.Helper()
	if o.Credentials == nil {
		o.Credentials = password(smbtest.Password)
	}
	if o.Patience.Outage == 0 {
		o.Patience.Outage = 20 * time.Second
	}
	var st *smb.Store
	var err error
	for range 10 {
		if st, err = smb.Create(t.Context(), at, o); !errors.Is(err, store.ErrGone) {
			break
		}
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func TestContract(t *testing.T) {
	s := smbtest.Start(t, smbtest.Config{})
	storetest.Run(t, func(t *testing.T) store.Store {
		return create(t, target(s, "repos/"+filepath.Base(t.Name())), smb.Options{})
	})
}
