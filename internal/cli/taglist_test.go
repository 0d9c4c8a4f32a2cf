package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTagList(t *testing.T) {
	for text, want := range map[string][]string{
		"": nil, "a": {"a"}, "a,b": {"a", "b"}, "n1\nn2": {"n1\nn2"}, `"q,z`: {`"q`, "z"}, "a,,b": {"a", "", "b"},
	} {
		var l []string
		require.NoError(t, tagList(&l).Set(text))
		require.Equal(t, want, l, "%q", text)
	}
}
