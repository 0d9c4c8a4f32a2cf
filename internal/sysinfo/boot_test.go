package sysinfo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestThisBoot(t *testing.T) {
	one, two := ThisBoot(), ThisBoot()
	require.True(t, one.Known())
	require.Equal(t, one.ID, two.ID)
	require.WithinDuration(t, one.At, two.At, 2*time.Second)
	require.True(t, one.At.Before(time.Now()))
	require.False(t, Boot{}.Known())
}
