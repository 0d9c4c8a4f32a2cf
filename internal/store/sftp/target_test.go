package sftp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/sftp"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]sftp.Target{
		"sftp://host/srv/a b":          {Host: "host", Path: "/srv/a b"},
		"sftp://me@host:2222/srv/":     {User: "me", Host: "host", Port: 2222, Path: "/srv"},
		"sftp://host/~/x/y":            {Host: "host", Path: "x/y"},
		"sftp://host/~":                {Host: "host"},
		"sftp://host/~/../../etc":      {Host: "host", Path: "etc"},
		"sftp://[fe80::1]:22/x":        {Host: "fe80::1", Port: 22, Path: "/x"},
		"sftp://[fe80::1]/x":           {Host: "fe80::1", Path: "/x"},
		"sftp://DOMAIN%5Cme@host/~x/y": {User: `DOMAIN\me`, Host: "host", Path: "/~x/y"},
	} {
		got, err := sftp.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
		again, err := sftp.Parse(got.String())
		require.NoError(t, err, text)
		require.Equal(t, got, again, "%s became %s", text, got)
	}
}

// TestNoAddressIsAnOptionOfSSH attacks the arguments of ssh, and its configuration, which may run commands with them.
func TestNoAddressIsAnOptionOfSSH(t *testing.T) {
	for _, text := range []string{"sftp://-oProxyCommand=x/y", "sftp://-x@host/y", "sftp://a;b@host/y",
		"sftp://a b@host/y",
		"sftp://$(x)@host/y", "sftp://`x`/y", "sftp://h'/y", "sftp://me:S3CRET@host/y", "sftp://host:x/y", "sftp://host:0/y",
		"sftp://host", "sftp://host/", "sftp:///x", "sftp://me%0a@host/y", "sftp://host/a\nb", "ssh://host/y"} {
		_, err := sftp.Parse(text)
		require.ErrorIs(t, err, sftp.ErrTarget, text)
		require.NotContains(t, err.Error(), "S3CRET")
	}
}

func TestTheFolderAbove(t *testing.T) {
	for text, want := range map[string]string{"sftp://h/a/b": "sftp://h/a", "sftp://h/~/a/b": "sftp://h/~/a",
		"sftp://h/~/a": "sftp://h/~", "sftp://h/~": "", "sftp://h/a": ""} {
		at, err := sftp.Parse(text)
		require.NoError(t, err)
		above, ok := at.Up()
		require.Equal(t, want != "", ok, text)
		if ok {
			require.Equal(t, want, above.String(), text)
		}
	}
}
