package policy

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

func TestNumber(t *testing.T) {
	require.Equal(t, "–", number(math.NaN(), 1))
	require.Equal(t, []string{"1234", "12.3", "1.23", "0.123"},
		[]string{digits(1234.5), digits(12.34), digits(1.234), digits(0.1234)})
}

func TestPeriods(t *testing.T) {
	require.Equal(t, 25*time.Millisecond, period(iopolicy.Throttle, "ssd"))
	require.Equal(t, 85*time.Millisecond, period(iopolicy.Utility, "hdd"))
}

// Every table accepts empty input, and then states that it has no data.
func TestTablesOfNothing(t *testing.T) {
	for _, m := range measurements() {
		b := &bench{settings: settings{medium: "ssd"}}
		table := m.table(b)
		require.Contains(t, table, "|---", m.part)
		require.NotContains(t, table, "NaN", m.part)
	}
}
