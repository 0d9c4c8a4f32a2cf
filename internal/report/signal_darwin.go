package report

import (
	"os"
	"syscall"
)

// stateSignals are the signals that ask for the state.
func stateSignals() []os.Signal { return []os.Signal{syscall.SIGINFO, syscall.SIGUSR1} }
