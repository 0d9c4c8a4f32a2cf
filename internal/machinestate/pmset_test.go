package machinestate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPowerOfPmset(t *testing.T) {
	for text, want := range map[string]Power{
		"":                              {Charge: -1},
		"Now drawing from 'AC Power'\n": {Charge: -1},
		"Now drawing from 'Battery Power'\n -InternalBattery-0 (id=4653155)\t98%; discharging; 5:14 remaining " +
			"present: true\n": {
			OnBattery: true, Charge: 98,
		},
		"Now drawing from 'AC Power'\n -InternalBattery-0 (id=4653155)\t100%; charged; 0:00 remaining present: " +
			"true\n": {Charge: 100},
		"Now drawing from 'UPS Power'\n -Back-UPS (id=1)\t50%; discharging; 0:20 remaining present: true\n": {
			OnBattery: true, Charge: 50,
		},
		"Now drawing from 'AC Power'\n -A (id=1)\t40%; charging; present: true\n -B (id=2)\t60%; AC attached; not charging " +
			"present: true\n" +
			" -C (id=3)\t0%; discharging; present: false\n": {Charge: 50},
		"Now drawing from 'Battery Power'\n -InternalBattery-0\tmany%; discharging\n": {OnBattery: true, Charge: -1},
	} {
		require.Equal(t, want, powerOf(text), text)
	}
}
