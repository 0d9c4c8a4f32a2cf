package iopolicy_test

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// beside prints the largest I/O, in bytes, that each policy may begin at once while a policy has an I/O in flight; 0 is
// any size.
func beside(running iopolicy.Policy, others ...iopolicy.Policy) {
	disk := iopolicy.New(iopolicy.Config{Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	passes := make([]*iopolicy.Pass, len(others))
	for i, p := range others {
		passes[i] = disk.Pass(iopolicy.NewClient(p))
	}
	op := iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true}
	grant, err := disk.Pass(iopolicy.NewClient(running)).Begin(context.Background(), op)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, pass := range passes {
		fmt.Printf("%v beside %v: %d\n", others[i], running, pass.Bound())
	}
	grant.End(4096)
}

// Important is for work that a user waits for, such as a restore: all other policies yield to it, and it yields to
// none.
func ExamplePolicy_important() {
	beside(iopolicy.Important, iopolicy.Important, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle)
	// Output:
	// important beside important: 0
	// standard beside important: 131072
	// utility beside important: 131072
	// throttle beside important: 131072
}

// Standard is for ordinary programs: it yields to Important for 25 ms after each of its I/Os.
func ExamplePolicy_standard() {
	beside(iopolicy.Standard, iopolicy.Important, iopolicy.Standard, iopolicy.Utility)
	// Output:
	// important beside standard: 0
	// standard beside standard: 0
	// utility beside standard: 131072
}

// Utility is for long work with visible progress, such as a first backup: its windows are 100 ms.
func ExamplePolicy_utility() {
	beside(iopolicy.Utility, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle)
	// Output:
	// standard beside utility: 0
	// utility beside utility: 0
	// throttle beside utility: 131072
}

// Throttle is for work that the user did not start, such as a nightly backup: it yields to all others, with windows of
// 500 ms.
func ExamplePolicy_throttle() {
	beside(iopolicy.Throttle, iopolicy.Standard, iopolicy.Utility, iopolicy.Throttle)
	// Output:
	// standard beside throttle: 0
	// utility beside throttle: 0
	// throttle beside throttle: 0
}

// Passive is for a few operations that must not disturb the measurement, such as a health check: it does not wait, and
// no other policy yields to it.
func ExamplePolicy_passive() {
	beside(iopolicy.Passive, iopolicy.Standard, iopolicy.Throttle)
	// Output:
	// standard beside passive: 0
	// throttle beside passive: 0
}
