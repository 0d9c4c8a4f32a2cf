package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// niceOf returns the nice value of the only child of a process, and the child; 0, 0 while there is none.
func niceOf(parent int) (nice, child int) {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	child, _ = strconv.Atoi(strings.TrimSpace(string(children)))
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	nice, _ = strconv.Atoi(fields[16])
	return nice, child
}

// When the term of a policy is over, a program has the priority of before again.
func TestAProgramAfterATerm(t *testing.T) {
	testkit.Slow(t)
	if os.Geteuid() != 0 {
		t.Skip("only root may raise a priority")
	}
	s := newStage(t)
	cmd := exec.Command("tidemark", "run", "--policy", "utility", "--", "sleep", "60")
	cmd.Env = s.env
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	has := func(want int) {
		t.Helper()
		require.Eventually(t, func() bool { nice, _ := niceOf(cmd.Process.Pid); return nice == want }, 20*time.Second,
			20*time.Millisecond)
	}
	const utility, throttle = 5, 10
	has(utility)
	pid := strconv.Itoa(cmd.Process.Pid)
	require.Eventually(t, func() bool {
		_, err := s.ask("tier", "set", "--pid", pid, "throttle", "--for", "2s")
		return err == nil
	}, 20*time.Second, 50*time.Millisecond)
	has(throttle)
	has(utility)
}
