package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnersTextAgreesWithTheNumber(t *testing.T) {
	require.Equal(t, "1 object belongs to you instead of its owner, since you are not root.", ownersText(1))
	require.Contains(t, ownersText(2), "2 objects belong to you instead of their owners")
}
