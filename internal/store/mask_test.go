package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// TestNoPasswordIsShown covers the forms in which people write passwords into addresses.
func TestNoPasswordIsShown(t *testing.T) {
	for text, want := range map[string]string{
		`unknown command "smb://root:S3CRETpw@host/share/x"; see`:       `unknown command "smb://***@host/share/x"; see`,
		`open SMB://root:S3CRETpw@host: no such file`:                   `open SMB://***@host: no such file`,
		`open /cwd/smb:/root:S3CRETpw@host/x: no`:                       `open /cwd/smb:/***@host/x: no`,
		`latest: "smb://D;u:S3CRETpw@h" is no path`:                     `latest: "smb://***@h" is no path`,
		`"smb://root:S3 CRETpw@h" and me`:                               `"smb://***@h" and me`,
		`a smb://root@S3CRETpw@h/x b`:                                   `a smb://***@h/x b`,
		`a smb://root@S3/CRETpw@h/x b`:                                  `a smb://***@h/x b`,
		`a smb://root:S3@CRETpw@h/x b`:                                  `a smb://***@h/x b`,
		`a smb://root:S3/CRETpw@h/x b`:                                  `a smb://***@h/x b`,
		`a root:S3CRETpw@host`:                                          `a ***@host`,
		`a cifs://root:S3CRETpw@host`:                                   `a cifs://***@host`,
		`a https://root:S3CRETpw@host`:                                  `a https://***@host`,
		"open repository at smb://me@nas:4450/backup/x: refuses":        "",
		"open repository at smb://D;me@nas/backup/x: smb://guest@... ":  "",
		"smb://nas:4450/backup/x: write smb://guest@nas":                "",
		"snapshot 1f3a of me@host: /home/x@y: not found":                "",
		"127.0.0.1 refuses connections on port 445; ask admin@nas: now": "",
		`quoted "smb://me@nas/x" and "you@host"`:                        "",
	} {
		if want == "" {
			want = text
		}
		got := store.Mask(text)
		require.Equal(t, want, got)
		require.NotContains(t, got, "CRET")
		require.Equal(t, got, store.Mask(got), "masking is done once")
	}
}
