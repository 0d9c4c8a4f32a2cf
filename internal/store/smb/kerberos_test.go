package smb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
	"github.com/tidemark-backup/tidemark/internal/test/storetest"
)

// tickets returns credentials with tickets.
func tickets(t smb.Tickets) func(context.Context) (smb.Secret, error) {
	return func(context.Context) (smb.Secret, error) { return smb.Secret{Tickets: &t}, nil }
}

// TestKerberos logs on with a ticket of a real KDC: on a connection that is signed, encrypted, or neither.
func TestKerberos(t *testing.T) {
	k := smbtest.StartKDC(t)
	s := smbtest.Start(t, smbtest.Config{Global: k.Server()})
	cache := k.Ticket(time.Hour)
	for name, o := range map[string]smb.Options{"plain": {Protection: smb.AsOffered}, "default": {},
		"signed": {Protection: smb.Signed}, "encrypted": {Protection: smb.Encrypted}} {
		t.Run(name, func(t *testing.T) {
			at := target(s, name)
			at.Host, at.User = "localhost", ""
			o.Credentials = tickets(smb.Tickets{Cache: "FILE:" + cache, Config: k.Config})
			st := create(t, at, o)
			data := storetest.Pattern(3<<20, 1)
			require.NoError(t, st.Put(t.Context(), pack(1), data))
			got := make([]byte, len(data))
			require.NoError(t, st.Get(t.Context(), pack(1), 0, got))
			require.Equal(t, data, got)
		})
	}
	t.Run("no ticket for the server, and its KDC is gone", func(t *testing.T) {
		at := target(s, "x")
		at.Host, at.User = "localhost", ""
		k.Kill()
		_, err := smb.Create(t.Context(), at, smb.Options{Credentials: tickets(smb.Tickets{Cache: cache, Config: k.Config})})
		require.ErrorIs(t, err, store.ErrTemporary)
		require.ErrorContains(t, err, "the KDC of TIDEMARK.TEST cannot be reached")
	})
}

// TestKerberosRefused: the error names the cause, and no password is tried instead.
func TestKerberosRefused(t *testing.T) {
	k := smbtest.StartKDC(t)
	s := smbtest.Start(t, smbtest.Config{Global: k.Server()})
	stranger := smbtest.Start(t, smbtest.Config{}) // knows no Kerberos
	good, short := k.Ticket(time.Hour), k.Ticket(time.Second)
	spoilt := filepath.Join(t.TempDir(), "spoilt")
	text, err := os.ReadFile(good)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(spoilt, text[:len(text)/3], 0o600))
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for ends := time.Now().Add(1100 * time.Millisecond); time.Now().Before(ends); {
		require.NoError(t, passMoment(t.Context()))
	}
	for name, c := range map[string]struct {
		server  *smbtest.Server
		change  func(*smb.Target)
		tickets smb.Tickets
		says    string
	}{
		"no file": {s, nil, smb.Tickets{Cache: "/no/such/file"}, "there are no Kerberos tickets in /no/such/file"},
		"spoilt file": {s, nil, smb.Tickets{Cache: spoilt},
			fmt.Sprintf("there is no Kerberos ticket of %q in %s", s.User, spoilt)},
		"empty file":      {s, nil, smb.Tickets{Cache: empty}, "get a ticket with 'kinit'"},
		"expired":         {s, nil, smb.Tickets{Cache: short}, "has expired: get a ticket with 'kinit'"},
		"of a keyring":    {s, nil, smb.Tickets{Cache: "KEYRING:persistent:0"}, "of the kind KEYRING: cannot be read"},
		"of another user": {s, func(t *smb.Target) { t.User = "other" }, smb.Tickets{Cache: good}, `and not of "other"`},
		"an address": {s, func(t *smb.Target) { t.Host = "127.0.0.1" }, smb.Tickets{Cache: good},
			"knows servers by name"},
		"unknown server": {
			s, func(t *smb.Target) { t.Host = "localhost.localdomain" }, smb.Tickets{Cache: good}, "there is no ticket for " +
				"cifs/localhost.localdomain",
		},
		"a server without Kerberos": {
			stranger, nil, smb.Tickets{Cache: good},
			"the server refused the Kerberos ticket: see whether localhost is a member of the realm",
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := target(c.server, "x")
			at.Host, at.User = "localhost", ""
			if c.change != nil {
				c.change(&at)
			}
			c.tickets.Config = k.Config
			_, err := smb.Create(t.Context(), at, smb.Options{Credentials: tickets(c.tickets)})
			require.Error(t, err)
			t.Log(err)
			require.ErrorContains(t, err, c.says)
			require.ErrorIs(t, err, smb.ErrLogon)
			require.NotErrorIs(t, err, store.ErrTemporary)
			require.NoDirExists(t, filepath.Join(c.server.Folder, "x"))
		})
	}
}

// passMoment waits a little.
func passMoment(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
