package s3_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/store/s3"
)

// TestAddresses: an address comes back as it was read, and what is wrong with one is said.
func TestAddresses(t *testing.T) {
	for text, want := range map[string]s3.Target{
		"s3://backup/laptop":                {Endpoint: "s3.amazonaws.com", Bucket: "backup", Prefix: "laptop"},
		"s3://nas.example:7070/backup":      {Endpoint: "nas.example:7070", Bucket: "backup"},
		"s3://localhost/backup/a/b":         {Endpoint: "localhost", Bucket: "backup", Prefix: "a/b"},
		"s3://nas.example/a--x-s3-b/laptop": {Endpoint: "nas.example", Bucket: "a--x-s3-b", Prefix: "laptop"},
	} {
		target, err := s3.Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, target)
		require.Equal(t, text, target.String())
	}
	for text, why := range map[string]string{
		"s3://":                         "the name of the bucket is missing",
		"s3://ab/laptop":                "3 to 63",
		"s3://backup/../x":              "cannot be part of a key",
		"s3://me:secret@host/backup":    "AWS_ACCESS_KEY_ID",
		"s3://fast--use1-az4--x-s3/lap": "lists its objects in no order",
	} {
		_, err := s3.Parse(text)
		require.ErrorIs(t, err, s3.ErrTarget, text)
		require.ErrorContains(t, err, why)
		require.NotContains(t, err.Error(), "secret@")
	}
}
