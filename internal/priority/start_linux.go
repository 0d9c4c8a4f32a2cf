package priority

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// startUnder calls start so that a process made by it is born with the priority of a policy: on a thread that has it,
// because a child has what the thread that makes it has. The thread ends here, and no other of ours is lowered, so that
// signals are handed on at once on a busy machine too.
func startUnder(policy iopolicy.Policy, start func() error) (Applied, error) {
	out := Applied{Policy: policy, Threads: 1}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the runtime ends the thread with the goroutine
		if lowers(policy) {
			err = lowerThread(policy, &out)
		}
		if err == nil {
			err = start()
		}
	}()
	<-done
	return out, err
}

func lowerThread(policy iopolicy.Policy, out *Applied) error {
	tid := unix.Gettid()
	found, err := readState(tid)
	if err != nil {
		return fmt.Errorf("find out own priority: %w", err)
	}
	p := &Process{pid: os.Getpid(), own: true}
	if _, err := p.move(tid, p.target(found, policy), out); err != nil {
		return fmt.Errorf("lower own priority: %w", err)
	}
	now, err := readState(tid)
	if err != nil {
		return fmt.Errorf("find out own priority: %w", err)
	}
	out.Now = now.String()
	return nil
}
