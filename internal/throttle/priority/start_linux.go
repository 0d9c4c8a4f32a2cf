package priority

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// startUnder calls start on a thread that has the priority of a policy. A child process inherits the priority of the
// thread that creates it, so it never runs with another one. No other thread of this process is lowered.
func startUnder(policy iopolicy.Policy, start func() error) (Applied, error) {
	out := Applied{Policy: policy, Threads: 1}
	var err error
	onOwnThread(func() {
		if lowers(policy) {
			err = lowerThread(policy, &out)
		}
		if err == nil {
			err = start()
		}
	})
	return out, err
}

// onOwnThread runs work on a thread that ends with it. The main thread of a process never ends: Go parks it for good,
// with whatever priority it has. When the scheduler picks it, it is held here while work runs on another one.
func onOwnThread(work func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without an unlock: Go ends the thread with the goroutine
		if unix.Gettid() != os.Getpid() {
			work()
			return
		}
		defer runtime.UnlockOSThread()
		onOwnThread(work)
	}()
	<-done
}

func lowerThread(policy iopolicy.Policy, out *Applied) error {
	tid := unix.Gettid()
	found, err := readState(tid)
	if err != nil {
		return fmt.Errorf("find out own priority: %w", err)
	}
	p := &Process{pid: os.Getpid(), own: true}
	if _, err := p.move(tid, p.target(tid, found, policy), out); err != nil {
		return fmt.Errorf("lower own priority: %w", err)
	}
	now, err := readState(tid)
	if err != nil {
		return fmt.Errorf("find out own priority: %w", err)
	}
	out.Now = now.String()
	return nil
}
