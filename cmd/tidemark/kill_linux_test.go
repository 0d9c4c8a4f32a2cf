package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

// processes returns the processes of the stage, by the state folder in their environment. own are of this program.
func (s *stage) processes() (own, others []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(s, err)
	for _, path := range all {
		environ, _ := os.ReadFile(path) // it may have ended, or be another user's
		if !bytes.Contains(environ, []byte("XDG_STATE_HOME="+s.at("state")+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		require.NoError(s, err)
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		if string(name) == "tidemark\n" {
			own = append(own, pid)
		} else if len(name) > 0 {
			others = append(others, pid)
		}
	}
	return own, others
}

// killall kills all processes of this program, as killall -9 does.
func (s *stage) killall() {
	for own, _ := s.processes(); len(own) > 0; own, _ = s.processes() {
		for _, pid := range own {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// A run that is killed with the supervisor of its commands leaves no process of a command, and its after-command runs
// once.
func TestKillOfARunAndItsSupervisor(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	s := newStage(t)
	s.write("before", []byte("echo before >> "+s.at("log")+"\n(trap '' TERM HUP; exec sleep 600) &\n"+
		"sleep 0.4; kill -KILL $!\n"))
	opt := s.options(fmt.Sprintf(`BEFORECOMMAND "sh %s"`, s.at("before")),
		fmt.Sprintf(`AFTERCOMMAND "echo after >> %s"`, s.at("log")))
	begun := 0
	for round := range testkit.Rounds(1, 24, 60) {
		s.write("log", nil)
		s.write("source/big", random(1<<20)) // so that the upload takes longer than until it is killed
		cmd := exec.Command("tidemark", s.backup(append(slow("upload"), "--option-file", opt)...)...)
		cmd.Env = s.env
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if round%3 > 0 {
			s.await("the command begins", func() bool { log, _ := os.ReadFile(s.at("log")); return len(log) > 0 })
		}
		at := time.Duration(rand.Int64N(int64(600 * time.Millisecond)))
		<-time.After(at)
		s.killall()
		require.Error(t, <-ended, "it was killed")
		require.Eventually(t, func() bool { own, others := s.processes(); return len(own)+len(others) == 0 }, ends,
			10*time.Millisecond, "a process is left; killed after %s", at)
		log, err := os.ReadFile(s.at("log"))
		require.NoError(t, err)
		before := string(log) == "before\n"
		s.do(s.backup("--expect-shrink", "--option-file", opt)...) // the stage has a larger source
		log, err = os.ReadFile(s.at("log"))
		require.NoError(t, err)
		if got := strings.Fields(string(log)); before {
			begun++
			require.Equal(t, []string{"before", "after", "before", "after"}, got, "killed after %s", at)
		} else { // a run that was killed just before its command owes the after-command too
			require.Equal(t, "before after", strings.TrimPrefix(strings.Join(got, " "), "after "), "killed after %s", at)
		}
	}
	require.NotZero(t, begun)
	s.do("check", "--read-data", "--password-file", s.at("password"))
}
