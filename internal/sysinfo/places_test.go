package sysinfo

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesToRun(t *testing.T) {
	for _, c := range []struct{ waiting, cpu, now, want int }{
		{8, 2, 2, 10},   // all may wait, and both processors have work
		{8, 16, 16, 24}, //
		{2, 4, 4, 6},    // of a disk that turns
		{256, 2, 2, 10}, // what the user asks for does not make a crowd of collectors
		{8, 1, 1, 5},    //
		{1, 4, 30, 30},  // more than that already
		{16, 64, 2, 80}, //
		{8, 1, 2, 5},    // a container with a quota of less than one: the runtime never goes below two by itself
	} {
		require.Equal(t, c.want, places(c.waiting, c.cpu, c.now), "%+v", c)
	}
}
