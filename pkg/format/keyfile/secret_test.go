package keyfile

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/blake3"

	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/internal/spectest"
)

func TestSecretFile(t *testing.T) {
	text, secret := NewSecretFile()
	require.Len(t, secret, secretFileSize)
	_, another := NewSecretFile()
	require.NotEqual(t, secret, another)

	plain := string(text)
	for name, variant := range map[string]string{
		"as written":          plain,
		"Windows line ends":   strings.ReplaceAll(plain, "\n", "\r\n"),
		"no last line end":    strings.TrimRight(plain, "\n"),
		"blank lines":         "\n\n" + strings.ReplaceAll(plain, "\n", "\n\n"),
		"indented":            "  " + strings.ReplaceAll(plain, "\n", " \n\t"),
		"without the comment": strings.Replace(plain, secretFileNote+"\n", "", 1),
		"with a comment":      plain + "# backup of the server in the cellar\n",
	} {
		got, err := ParseSecretFile([]byte(variant))
		require.NoError(t, err, name)
		require.Equal(t, secret, got, name)
	}
}

func TestGoldenSecretFile(t *testing.T) {
	secret := bytes.Repeat([]byte{0x5a}, secretFileSize)
	text := spectest.Golden(t, "key-file", formatSecretFile(secret))
	got, err := ParseSecretFile(text)
	require.NoError(t, err)
	require.Equal(t, secret, got)
}

func TestParseSecretFileRefuses(t *testing.T) {
	secret := bytes.Repeat([]byte{0x5a}, secretFileSize)
	good := string(formatSecretFile(secret))
	lines := strings.Split(good, "\n")
	title, encoded, check := lines[0], lines[2], lines[3]
	short := secret[:31]
	var shortCheck [fileCheckSize]byte
	blake3.DeriveKey(contextFileCheck, short, shortCheck[:])
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing":         {"", ErrNotKeyFile},
		"only comments":   {"# a\n\n#b\n", ErrNotKeyFile},
		"another file":    {"-----BEGIN OPENSSH PRIVATE KEY-----\n", ErrNotKeyFile},
		"no version":      {secretFileTitle + "\n" + encoded + "\n" + check, ErrNotKeyFile},
		"another version": {secretFileTitle + " 2\nwhatever", format.ErrUnsupported},
		"only a title":    {title + "\n", ErrNotKeyFile},
		"no checksum":     {title + "\n" + encoded + "\n", ErrNotKeyFile},
		"one line more":   {good + "more\n", ErrNotKeyFile},
		"short secret":    {string(formatSecretFile(short)), ErrNotKeyFile},
		"no base64":       {title + "\n" + strings.Repeat("?", 44) + "\n" + check, ErrNotKeyFile},
		"bits behind the secret": {
			title + "\n" + encoded[:42] + "p=\n" + check, ErrNotKeyFile,
		},
		"another checksum": {title + "\n" + encoded + "\n" + strings.Repeat("0", 16), ErrNotKeyFile},
		"too long":         {good + strings.Repeat("#", MaxSecretFile), ErrNotKeyFile},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSecretFile([]byte(c.text))
			require.ErrorIs(t, err, c.want)
			require.Nil(t, got)
			require.NotContains(t, err.Error(), encoded[:8], "the secret must not get into a log")
		})
	}
	for i := range encoded {
		changed := []byte(encoded)
		if changed[i]++; changed[i] == '=' {
			changed[i]++
		}
		_, err := ParseSecretFile([]byte(strings.Replace(good, encoded, string(changed), 1)))
		require.ErrorIs(t, err, ErrNotKeyFile, "character %d", i)
	}
	_, err := base64.StdEncoding.DecodeString(encoded)
	require.NoError(t, err, "the second line is where this test thinks")
}

func TestRecoveryKey(t *testing.T) {
	text, secret := NewRecoveryKey()
	require.Len(t, secret, recoverySize)
	require.Regexp(t, `^([0-9A-HJKMNP-TV-Z]{4}-){8}[0-9A-HJKMNP-TV-Z]{4}$`, text)
	_, another := NewRecoveryKey()
	require.NotEqual(t, secret, another)

	for name, variant := range map[string]string{
		"as printed":       text,
		"lower case":       strings.ToLower(text),
		"without dashes":   strings.ReplaceAll(text, "-", ""),
		"with spaces":      " " + strings.ReplaceAll(text, "-", " ") + "\n",
		"on several lines": strings.ReplaceAll(text, "-", "\r\n\t"),
		"long dashes":      strings.ReplaceAll(text, "-", " – "),
		"O for 0":          strings.ReplaceAll(text, "0", "O"),
		"o for 0":          strings.ReplaceAll(text, "0", "o"),
		"I for 1":          strings.ReplaceAll(text, "1", "I"),
		"l for 1":          strings.ReplaceAll(text, "1", "l"),
	} {
		got, err := ParseRecoveryKey(variant)
		require.NoError(t, err, name)
		require.Equal(t, secret, got, name)
	}
}

// TestRecoveryKeyLookAlikes uses a secret whose text is full of the characters that are mistaken for others.
func TestRecoveryKeyLookAlikes(t *testing.T) {
	secret := make([]byte, recoverySize)
	secret[0], secret[1] = 0x08, 0x42 // 1, 1, 1 and then zeros
	text := formatRecoveryKey(secret)
	require.Regexp(t, "^111.-0000", text)
	mistaken := "IlL" + text[3:5] + "OoO" + text[8:]
	got, err := ParseRecoveryKey(mistaken)
	require.NoError(t, err)
	require.Equal(t, secret, got)
}

func TestGoldenRecoveryKey(t *testing.T) {
	secret := []byte("twenty random bytes!")
	require.Len(t, secret, recoverySize)
	text := formatRecoveryKey(secret)
	stored := spectest.Golden(t, "recovery-key", []byte(text))
	got, err := ParseRecoveryKey(string(stored))
	require.NoError(t, err)
	require.Equal(t, secret, got)
}

func TestRecoveryKeyRoundTrip(t *testing.T) {
	require.NoError(t, quick.Check(func(secret [recoverySize]byte) bool {
		got, err := ParseRecoveryKey(formatRecoveryKey(secret[:]))
		return err == nil && bytes.Equal(got, secret[:])
	}, nil))
}

// TestRecoveryKeyMistakes: each character replaced by each other one, and each neighbouring pair swapped. The checksum
// has 20 bits and there are about 1150 such mistakes: this key has none that slips, of all keys one in a thousand has.
func TestRecoveryKeyMistakes(t *testing.T) {
	secret := []byte("twenty random bytes!")
	text := strings.ReplaceAll(formatRecoveryKey(secret), "-", "")
	for i := range text {
		for _, c := range crockford {
			if byte(c) != text[i] {
				_, err := ParseRecoveryKey(text[:i] + string(c) + text[i+1:])
				require.ErrorIs(t, err, ErrMistyped, "character %d as %c", i, c)
			}
		}
		if i > 0 && text[i] != text[i-1] {
			_, err := ParseRecoveryKey(text[:i-1] + text[i:i+1] + text[i-1:i] + text[i+1:])
			require.ErrorIs(t, err, ErrMistyped, "characters %d and %d", i-1, i)
		}
	}
}

func TestParseRecoveryKeyRefuses(t *testing.T) {
	good := formatRecoveryKey([]byte("twenty random bytes!"))
	for name, text := range map[string]string{
		"nothing":         "",
		"only dashes":     "----",
		"one missing":     good[1:],
		"one too many":    good + "0",
		"twice":           good + good,
		"U":               "U" + good[1:],
		"a letter beyond": "Ä" + good[1:],
		"not UTF-8":       "\xff" + good[1:],
		"punctuation":     "!" + good[1:],
	} {
		got, err := ParseRecoveryKey(text)
		require.ErrorIs(t, err, ErrMistyped, name)
		require.Nil(t, got, name)
		require.NotContains(t, err.Error(), good[5:9], name)
	}
}

func FuzzParseSecretFile(f *testing.F) {
	f.Add(formatSecretFile(bytes.Repeat([]byte{1}, secretFileSize)))
	f.Add([]byte("tidemark-key-file 2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if secret, err := ParseSecretFile(text); err == nil {
			again, err := ParseSecretFile(formatSecretFile(secret))
			require.NoError(t, err)
			require.Equal(t, secret, again)
		}
	})
}

func FuzzParseRecoveryKey(f *testing.F) {
	f.Add(formatRecoveryKey([]byte("twenty random bytes!")))
	f.Add("OIL-oil 01")
	f.Fuzz(func(t *testing.T, text string) {
		if secret, err := ParseRecoveryKey(text); err == nil {
			again, err := ParseRecoveryKey(formatRecoveryKey(secret))
			require.NoError(t, err)
			require.Equal(t, secret, again)
		}
	})
}

// The last group is found in the whole key and in what a person types of it, and contains no character of the secret.
func TestLastGroup(t *testing.T) {
	text, secret := NewRecoveryKey()
	for _, typed := range []string{text, strings.ToLower(text), recoveryCheck(secret), " " + recoveryCheck(secret) + "\n",
		strings.ReplaceAll(recoveryCheck(secret), "0", "o")} {
		group, err := LastGroup(typed)
		require.NoError(t, err, typed)
		require.Equal(t, recoveryCheck(secret), group, typed)
	}
	for _, bad := range []string{"", "ABC", "ABCDE", text[:9], text + "A", "AB!D", text[5:]} {
		_, err := LastGroup(bad)
		require.ErrorIs(t, err, ErrMistyped, bad)
	}
}
