package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutSecrets(t *testing.T) {
	environ := []string{"TIDEMARK_PASSWORD=a", "PATH=/bin", "TIDEMARK_SMB_PASSWORD=b=c", "TIDEMARK_PASSWORD_FILE=/f",
		"ODD"}
	require.Equal(t, []string{"PATH=/bin", "TIDEMARK_PASSWORD_FILE=/f", "ODD"}, WithoutSecrets(environ))
	require.Len(t, environ, 5)
	for _, o := range Table() {
		if o.Secret {
			require.Empty(t, WithoutSecrets([]string{o.Env() + "=x"}), o.Name)
		}
	}
}
