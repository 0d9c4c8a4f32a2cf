package options

import (
	"os"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// TestTheKernelIsChosenByNameOnly: the default is tidemark on every system.
func TestTheKernelIsChosenByNameOnly(t *testing.T) {
	with := func(system string, args ...string) (*Spec, error) {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		Register(flags, GroupPolicy)
		require.NoError(t, flags.Parse(args))
		spec, _, err := resolve(flags, func(string) (string, bool) { return "", false }, os.ReadFile, system)
		return spec, err
	}
	for _, system := range []string{"linux", "darwin"} {
		spec, err := with(system)
		require.NoError(t, err)
		require.False(t, spec.IO().ByKernel)
		require.True(t, spec.IO().Settings.Enabled)
	}
	spec, err := with("darwin", "--policy-by", "kernel")
	require.NoError(t, err)
	require.True(t, spec.IO().ByKernel)
	require.False(t, spec.IO().Settings.Enabled)
}
