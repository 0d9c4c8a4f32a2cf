package keyfile

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
)

// The contexts of the checksums: derive-key mode, so that a checksum is no hash of the secret that is used elsewhere.
const (
	contextFileCheck     = "github.com/tidemark-backup/tidemark v1 key file checksum"
	contextRecoveryCheck = "github.com/tidemark-backup/tidemark v1 recovery key checksum"
)

const (
	// MaxSecretFile is the largest key file in bytes that is accepted. Ours have about 200.
	MaxSecretFile = 1 << 12

	secretFileTitle   = "tidemark-key-file"
	secretFileVersion = "1"
	secretFileNote    = "# Whoever has this file can read the repository. Keep it secret, and keep a copy elsewhere."
	fileCheckSize     = 8 // bytes
)

// NewSecretFile makes a random secret and the text of a key file that holds it.
func NewSecretFile() (text, secret []byte) {
	secret = make([]byte, secretFileSize)
	_, _ = rand.Read(secret) // never fails
	return formatSecretFile(secret), secret
}

func formatSecretFile(secret []byte) []byte {
	var check [fileCheckSize]byte
	blake3.DeriveKey(contextFileCheck, secret, check[:])
	return []byte(strings.Join([]string{
		secretFileTitle + " " + secretFileVersion,
		secretFileNote,
		base64.StdEncoding.EncodeToString(secret),
		hex.EncodeToString(check[:]),
		"",
	}, "\n"))
}

// ParseSecretFile returns the secret of a key file's text. Empty lines, lines that begin with # and spaces at the ends
// of lines do not count. The error wraps ErrNotKeyFile, or format.ErrUnsupported for a newer kind of key file, and does
// not quote the text.
func ParseSecretFile(text []byte) (secret []byte, err error) {
	if len(text) > MaxSecretFile {
		return nil, fmt.Errorf("read key file: %d bytes: %w", len(text), ErrNotKeyFile)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	var title []string
	if len(lines) > 0 {
		title = strings.Fields(lines[0])
	}
	if len(title) != 2 || title[0] != secretFileTitle {
		return nil, fmt.Errorf("read key file: the first line is not %q and a version: %w", secretFileTitle, ErrNotKeyFile)
	}
	if title[1] != secretFileVersion {
		return nil, fmt.Errorf("read key file: version %.8q: %w", title[1], format.ErrUnsupported)
	}
	if len(lines) != 3 {
		return nil, fmt.Errorf("read key file: %d lines instead of 3: %w", len(lines), ErrNotKeyFile)
	}
	secret, err = base64.StdEncoding.Strict().DecodeString(lines[1])
	if err != nil || len(secret) != secretFileSize {
		return nil, fmt.Errorf("read key file: the second line is no secret: %w", ErrNotKeyFile)
	}
	var check [fileCheckSize]byte
	blake3.DeriveKey(contextFileCheck, secret, check[:])
	if lines[2] != hex.EncodeToString(check[:]) {
		return nil, fmt.Errorf("read key file: the checksum differs: %w", ErrNotKeyFile)
	}
	return secret, nil
}

const (
	// crockford is Crockford's base32: no I, L, O (read as 1, 1, 0) and no U.
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

	recoverySymbols = recoverySize * 8 / 5 // 32 characters of secret
	checkSymbols    = 4                    // 20 bits: one mistake in a million goes unnoticed here, none by Unwrap
	groupSize       = 4
)

// NewRecoveryKey makes a random secret and its printable form: nine groups of four characters with dashes between.
func NewRecoveryKey() (text string, secret []byte) {
	secret = make([]byte, recoverySize)
	_, _ = rand.Read(secret) // never fails
	return formatRecoveryKey(secret), secret
}

func formatRecoveryKey(secret []byte) string {
	symbols := base32.NewEncoding(crockford).EncodeToString(secret) + recoveryCheck(secret)
	var groups []string
	for i := 0; i < len(symbols); i += groupSize {
		groups = append(groups, symbols[i:i+groupSize])
	}
	return strings.Join(groups, "-")
}

// recoveryCheck returns the characters that follow those of the secret.
func recoveryCheck(secret []byte) string {
	var check [5]byte // eight characters, only the first ones are used
	blake3.DeriveKey(contextRecoveryCheck, secret, check[:])
	return base32.NewEncoding(crockford).EncodeToString(check[:])[:checkSymbols]
}

// ParseRecoveryKey returns the secret of a recovery key that a person typed: in either case, with or without spaces,
// line ends and dashes, with O for 0 and I or L for 1. The error wraps ErrMistyped and quotes one character at most.
func ParseRecoveryKey(text string) (secret []byte, err error) {
	const all = recoverySymbols + checkSymbols
	symbols, err := recoveryText(text, all)
	if err != nil {
		return nil, err
	}
	if len(symbols) != all {
		return nil, fmt.Errorf("read recovery key: %d characters instead of %d: %w", len(symbols), all, ErrMistyped)
	}
	secret, err = base32.NewEncoding(crockford).DecodeString(string(symbols[:recoverySymbols]))
	if err != nil {
		return nil, fmt.Errorf("read recovery key: %w", ErrMistyped)
	}
	if recoveryCheck(secret) != string(symbols[recoverySymbols:]) {
		return nil, fmt.Errorf("read recovery key: the checksum differs: %w", ErrMistyped)
	}
	return secret, nil
}

// LastGroup returns the last group of a recovery key, from the whole key or from that group alone as a person typed it.
// The group is the checksum: it proves that the key was copied, and contains none of its characters.
func LastGroup(text string) (string, error) {
	symbols, err := recoveryText(text, recoverySymbols+checkSymbols)
	if err != nil {
		return "", err
	}
	if len(symbols) != checkSymbols && len(symbols) != recoverySymbols+checkSymbols {
		return "", fmt.Errorf("read the last group of a recovery key: %d characters instead of %d: %w", len(symbols),
			checkSymbols,
			ErrMistyped)
	}
	return string(symbols[len(symbols)-checkSymbols:]), nil
}

// recoveryText returns the symbols that a person typed, most at most.
func recoveryText(text string, most int) ([]byte, error) {
	symbols := make([]byte, 0, most)
	for _, c := range text {
		switch {
		case strings.ContainsRune(" \t\r\n-_.", c) || c == '\u00a0' || c >= '\u2010' && c <= '\u2015':
			continue // also the dashes and spaces that word processors put in their place
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		}
		switch c {
		case 'O':
			c = '0'
		case 'I', 'L':
			c = '1'
		}
		if !strings.ContainsRune(crockford, c) {
			return nil, fmt.Errorf("read recovery key: %q does not occur in one: %w", c, ErrMistyped)
		}
		if len(symbols) == most {
			return nil, fmt.Errorf("read recovery key: more than %d characters: %w", most, ErrMistyped)
		}
		symbols = append(symbols, byte(c))
	}
	return symbols, nil
}
