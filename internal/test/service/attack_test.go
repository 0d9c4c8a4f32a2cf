package service

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/report/event"
)

var soak = flag.Duration("soak", 0, "attack for this long, in random order; without it, each attack once")

// attack is what happens to a service that worked. During it a run is made, or two; after undo the next run succeeds.
type attack struct {
	name    string
	apply   func(s *siege) (undo func())
	outcome string // of the runs during the attack
	code    int    // of status then
	at      int    // in which run people are notified
}

func attacks() []attack {
	rename := func(name string) func(*siege) func() {
		return func(s *siege) func() {
			require.NoError(s.t, os.Rename(s.at(name), s.at(name+".away")))
			return func() {
				_ = os.RemoveAll(s.at(name))
				require.NoError(s.t, os.Rename(s.at(name+".away"), s.at(name)))
			}
		}
	}
	return []attack{
		{name: "a source is missing", apply: rename("photos"), outcome: "incomplete", code: 1, at: 1},
		{name: "a source is empty", apply: func(s *siege) func() {
			undo := rename("letters")(s)
			require.NoError(s.t, os.Mkdir(s.at("letters"), 0o700))
			s.give(s.at("letters"))
			return undo
		}, outcome: "incomplete", code: 1, at: 1},
		{name: "a source shrinks", apply: func(s *siege) func() {
			for i := range 30 {
				require.NoError(s.t, os.Remove(s.at(fmt.Sprintf("photos/%02d", i))))
			}
			return func() {
				for i := range 30 {
					s.write(fmt.Sprintf("photos/%02d", i), fmt.Sprintf("photos %d\n", i))
				}
			}
		}, outcome: "incomplete", code: 1, at: 2},
		{name: "a source cannot be read", apply: unreadable("photos"), outcome: "incomplete", code: 1, at: 1},
		{name: "a file cannot be read", apply: unreadable("letters/07"), outcome: "incomplete", code: 1, at: 2},
		{name: "the repository is away", apply: rename("repo"), outcome: "failed", code: 2, at: 1},
	}
}

// unreadable takes all rights on a file or folder away.
func unreadable(name string) func(*siege) func() {
	return func(s *siege) func() {
		info, err := os.Stat(s.at(name))
		require.NoError(s.t, err)
		require.NoError(s.t, os.Chmod(s.at(name), 0))
		return func() { require.NoError(s.t, os.Chmod(s.at(name), info.Mode())) }
	}
}

// TestWhatIsShownIsTrue makes each attack once, or with -soak many of them.
func TestWhatIsShownIsTrue(t *testing.T) {
	s := begin(t)
	v := s.run()
	s.requireGood(&v, nil)
	if *soak == 0 {
		for _, a := range attacks() {
			s.attack(&a)
		}
		s.damage()
		s.webhookDown()
		s.kill(300 * time.Millisecond)
		s.sigstop()
		s.cutOff(strings.Index(s.text(), "CHECKPARTS") + 4)
		s.cutOff(strings.Index(s.text(), "  CHECKPARTS"))
		return
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for end := time.Now().Add(*soak); time.Now().Before(end); {
		all := attacks()
		switch n := r.IntN(len(all) + 6); {
		case n < len(all):
			s.attack(&all[n])
		case n == len(all):
			s.damage()
		case n == len(all)+1:
			s.webhookDown()
		case n == len(all)+2:
			s.sigstop()
		case n == len(all)+3:
			s.cutOff(r.IntN(len(s.text())))
		default:
			s.kill(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
	}
	t.Logf("%d attacks, %d runs", s.round, len(s.ended()))
}

// requireGood requires that a run has everything, and that everything shows it. alarms are those that are right.
func (s *siege) requireGood(v *seen, alarms []string) {
	s.t.Helper()
	require.True(s.t, s.whole(v.run.Snapshot), "the attack is over, and the snapshot lacks something\n%s", v)
	require.Equal(s.t, "done", v.run.Outcome, v.String())
	require.Equal(s.t, []string{"/start", ""}, v.pings, v.String())
	require.Equal(s.t, alarms, v.alarms(), v.String())
	require.Zero(s.t, v.code, v.String())
	require.Regexp(s.t, `tidemark_job_incomplete\{job="home"\} 0\n`, v.metrics)
}

func (s *siege) begins(name string) {
	s.round++
	s.t.Logf("%s attack %d: %s", time.Now().UTC().Format(time.TimeOnly), s.round, name)
}

// attack makes runs during an attack, and one after it.
func (s *siege) attack(a *attack) {
	s.t.Helper()
	s.begins(a.name)
	undo := a.apply(s)
	var alarms []string
	for i := 1; i <= 2; i++ {
		v := s.run()
		if a.outcome == "incomplete" {
			require.False(s.t, s.whole(v.run.Snapshot), v.String())
		}
		require.Equal(s.t, a.outcome, v.run.Outcome, v.String())
		require.Equal(s.t, []string{"/start", "/fail"}, v.pings, v.String())
		require.Equal(s.t, a.code, v.code, v.String())
		alarms = append(alarms, v.alarms()...)
		if i < a.at {
			require.Empty(s.t, alarms, "too early\n%s", &v)
		} else {
			require.Equal(s.t, []string{a.outcome}, alarms, "each cause once\n%s", &v)
		}
		incomplete := 0
		if a.outcome == "incomplete" {
			incomplete = 1
		}
		require.Regexp(s.t, fmt.Sprintf(`tidemark_job_incomplete\{job="home"\} %d\n`, incomplete), v.metrics)
	}
	undo()
	v := s.run()
	s.requireGood(&v, []string{"recovered"})
}

// damage flips a bit of a pack. It is reported until the next backup has healed it, and what is said then is true.
func (s *siege) damage() {
	s.begins("a bit of a pack flips")
	packs, err := filepath.Glob(s.at("repo/packs/*/*"))
	require.NoError(s.t, err)
	trees, err := filepath.Glob(s.at("repo/trees/*"))
	require.NoError(s.t, err)
	packs = append(packs, trees...)
	require.NotEmpty(s.t, packs)
	s.flip(packs[s.round%len(packs)])
	var alarms []string
	healed := false
	for i := range 4 {
		time.Sleep(time.Second) // then a check is due
		v := s.run()
		alarms = append(alarms, v.alarms()...)
		if i == 0 && v.run.Outcome == "done" { // the run pruned that pack, or no snapshot needs it
			s.requireGood(&v, nil)
			s.allRestorable()
			return
		}
		if i == 0 {
			require.Equal(s.t, "failed", v.run.Outcome, v.String())
			require.Equal(s.t, []string{"failed"}, alarms, v.String())
		}
		if v.run.Outcome == "done" {
			healed = true
			require.Zero(s.t, v.code, v.String())
			require.Equal(s.t, []string{"/start", ""}, v.pings, v.String())
			s.allRestorable()
			continue
		}
		require.False(s.t, healed, "alarm and all-clear alternate\n%s", &v)
		require.Equal(s.t, 2, v.code, v.String())
		require.Equal(s.t, []string{"/start", "/fail"}, v.pings, v.String())
	}
	require.True(s.t, healed, "the sources are there, and no backup healed it")
	require.Equal(s.t, []string{"failed", "recovered"}, alarms)
}

// allRestorable requires that each snapshot can be restored without an error.
func (s *siege) allRestorable() {
	out, code := s.tidemark("snapshots", "--repo", s.at("repo"), "--json", "--option-file", os.DevNull)
	require.Zero(s.t, code, out)
	n := 0
	for line := range strings.Lines(out) {
		if !strings.Contains(line, `"message_type":"snapshot"`) {
			continue
		}
		_, rest, _ := strings.Cut(line, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		target := s.at("all")
		out, code := s.tidemark("restore", id, "--repo", s.at("repo"), "--target", target, "--option-file",
			os.DevNull)
		for message := range strings.Lines(out) { // what was not backed up is not damaged
			ok := !strings.HasPrefix(message, "restore ") || strings.Contains(message, "when it was backed up")
			require.True(s.t, ok && code <= 1, "snapshot %s: %s", id, out)
		}
		require.NoError(s.t, os.RemoveAll(target))
		n++
	}
	require.NotZero(s.t, n, out)
}

// webhookDown has no message arrive while a source is missing: it comes later.
func (s *siege) webhookDown() {
	s.begins("a source is missing while the webhook is down")
	s.web.set(true)
	require.NoError(s.t, os.Rename(s.at("photos"), s.at("photos.away")))
	before := len(s.ended())
	_, code := s.tidemark("job", "start", "home")
	require.Zero(s.t, code)
	s.until("the run ends", func() bool { return len(s.ended()) > before })
	s.web.take()
	s.stop(syscall.SIGKILL)
	s.start()
	s.web.set(false)
	var kinds, pings []string
	s.until("the message arrives", func() bool {
		p, mails := s.web.take()
		pings = append(pings, p...)
		for i := range mails {
			kinds = append(kinds, mails[i].Kind)
		}
		return slices.Contains(kinds, "incomplete") && len(pings) > 0 && pings[len(pings)-1] == "/fail"
	})
	require.NoError(s.t, os.Rename(s.at("photos.away"), s.at("photos")))
	v := s.run()
	s.requireGood(&v, []string{"recovered"})
}

// kill kills the service at a moment of a run. Each start is followed by an end, and nothing is left.
func (s *siege) kill(after time.Duration) {
	s.begins(fmt.Sprintf("kill -9 of the service after %s", after))
	s.web.take()
	before := len(s.ended())
	_, code := s.tidemark("job", "start", "home")
	require.Zero(s.t, code)
	time.Sleep(after)
	s.stop(syscall.SIGKILL)
	s.start()
	var pings []string
	var mails []event.Notification
	s.until("the run that was killed ends", func() bool {
		p, m := s.web.take()
		pings, mails = append(pings, p...), append(mails, m...)
		return len(s.ended()) > before && len(pings) > 0 && pings[len(pings)-1] != "/start"
	})
	runs := s.ended()
	for _, r := range runs[before:] {
		require.NotEqual(s.t, "incomplete", r.Outcome, "no source was lost")
		if r.Outcome == "done" {
			require.True(s.t, s.whole(r.Snapshot))
		}
	}
	// It is tried again by itself, within a minute. Then all is well.
	v := s.run()
	require.Equal(s.t, "done", v.run.Outcome, v.String())
	require.True(s.t, s.whole(v.run.Snapshot), v.String())
	require.Zero(s.t, v.code, v.String())
	mails = append(mails, v.mails...)
	open := false
	for i := range mails {
		require.Contains(s.t, []string{"failed", "recovered"}, mails[i].Kind)
		open = mails[i].Kind == "failed"
	}
	require.False(s.t, open, "the failure is over, and no message says so\n%s", &v)
}

// sigstop stops the process: status does not call that well, nor absent.
func (s *siege) sigstop() {
	s.begins("SIGSTOP")
	require.NoError(s.t, s.daemon.Process.Signal(syscall.SIGSTOP))
	s.until("the kernel has stopped it", func() bool {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.daemon.Process.Pid))
		_, state, _ := strings.Cut(string(content), ") ")
		return err != nil || strings.HasPrefix(state, "T")
	})
	out, code := s.tidemark("status")
	require.Equal(s.t, 3, code, out)
	require.Contains(s.t, out, "stopped")
	require.NotContains(s.t, out, "not running")
	require.Contains(s.t, out, "home", "the jobs are listed")
	require.NoError(s.t, s.daemon.Process.Signal(syscall.SIGCONT))
	v := s.run()
	s.requireGood(&v, nil)
}

// cutOff has the option file end early, as after a crash of an editor. The job runs as it was, or not at all, and never
// with half of a line. A file that ends with a line is another file, which a person may have written.
func (s *siege) cutOff(length int) {
	s.begins(fmt.Sprintf("the option file is cut off after %d bytes", length))
	s.web.take()
	s.write("opt", s.text()[:length])
	time.Sleep(2500 * time.Millisecond) // younger files are not read
	_ = s.daemon.Process.Signal(syscall.SIGHUP)
	time.Sleep(500 * time.Millisecond)
	before := len(s.ended())
	out, code := s.tidemark("job", "start", "home")
	if code == 0 {
		s.until("the run ends", func() bool { return len(s.ended()) > before })
		runs := s.ended()
		last := runs[len(runs)-1]
		require.True(s.t, last.Job == "home" && (last.Outcome != "done" || s.whole(last.Snapshot)), "%v\n%s", last, out)
	}
	status, code := s.tidemark("status")
	if text := s.text(); length < len(text)-1 && !strings.HasSuffix(text[:length], "\n") {
		require.NotZero(s.t, code, "the option file is not what it was, and status says nothing\n%s", status)
	}
	s.options()
	time.Sleep(2500 * time.Millisecond)
	_ = s.daemon.Process.Signal(syscall.SIGHUP)
	s.until("the option file is used again", func() bool {
		_, code := s.tidemark("job", "start", "home")
		return code == 0
	})
	time.Sleep(3 * time.Second)
	v := s.run()
	require.Equal(s.t, "done", v.run.Outcome, v.String())
	require.Zero(s.t, v.code, v.String())
	require.True(s.t, s.whole(v.run.Snapshot), v.String())
}
