package machinestate

import (
	"strconv"
	"strings"
)

// powerOf reads the output of `pmset -g batt` of macOS.
func powerOf(text string) Power {
	p := Power{Charge: -1}
	sum, count := 0, 0
	for line := range strings.Lines(text) {
		if source, ok := strings.CutPrefix(strings.TrimSpace(line), "Now drawing from "); ok {
			p.OnBattery = source == "'Battery Power'" || source == "'UPS Power'"
			continue
		}
		// " -InternalBattery-0 (id=4653155)	98%; discharging; 5:14 remaining present: true"
		before, _, ok := strings.Cut(line, "%;")
		if !ok || !strings.HasPrefix(strings.TrimSpace(line), "-") || strings.Contains(line, "present: false") {
			continue
		}
		percent, err := strconv.Atoi(before[strings.LastIndexAny(before, " \t")+1:])
		if err == nil {
			sum, count = sum+percent, count+1
		}
	}
	if count > 0 {
		p.Charge = sum / count
	}
	return p
}
