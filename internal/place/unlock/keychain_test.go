package unlock

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/options"
)

// TestAPassphraseInTheKeychain: the command that ADR 31 names, with a program in place of /usr/bin/security that ends
// as that one does: 44 for an item that is not there.
func TestAPassphraseInTheKeychain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "security"), []byte(`#!/bin/sh
[ "$*" = "find-generic-password -w -s tidemark -a home" ] && { echo ' secret "x" '; exit 0; }
echo 'security: SecKeychainSearchCopyNext: The specified item could not be found in the keychain.' >&2
exit 44
`), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	const find = "security find-generic-password -w -s tidemark -a "
	text, err := Passphrase(t.Context(), options.Keys{PasswordCommand: find + "home"})
	require.NoError(t, err)
	require.Equal(t, ` secret "x" `, text)
	_, err = Passphrase(t.Context(), options.Keys{PasswordCommand: find + "other"})
	require.ErrorContains(t, err, "exit status 44") // its message is on the terminal
}
