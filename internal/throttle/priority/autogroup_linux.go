package priority

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/internal/sysinfo"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Where the kernel groups processes by session (sched_autogroup_enabled, on in most distributions, sched(7)), a nice
// value counts only within the session, and groups share the processor by the nice value of the group. In a session of
// its own, a service would compete with no process. So a session leader, whose session holds only its children, sets
// the value of the group as well; in a terminal's session that belongs to the shell.
const autogroupFile = "/proc/self/autogroup"

// autogroup is the group of this process' session.
type autogroup struct{ found int }

// ownAutogroup returns nil where there is no group, or where others are in it.
func ownAutogroup() *autogroup {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return nil
	}
	nice, err := readAutogroup()
	if err != nil {
		return nil
	}
	return &autogroup{found: nice}
}

func readAutogroup() (nice int, err error) {
	text, err := sysinfo.ReadFile(autogroupFile)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), " ") // "/autogroup-11 nice 0"
	if _, err := fmt.Sscanf(after, "nice %d", &nice); err != nil {
		return 0, fmt.Errorf("read %s: %q: %w", autogroupFile, text, err)
	}
	return nice, nil
}

// pause is how long the kernel refuses another change of any group by another user than root, after the last.
const pause = 100 * time.Millisecond

// apply gives the group the nice value of a policy, and never a better one than was found. Unlike that of a thread it
// may be set back by anybody, unless it was below 0.
func (g *autogroup) apply(policy iopolicy.Policy, out *Applied) {
	nice := max(g.found, niceOf(policy))
	if now, err := readAutogroup(); err != nil || now == nice {
		return
	}
	var err error
	for range 3 {
		err = os.WriteFile(autogroupFile, fmt.Appendf(nil, "%d", nice), 0)
		if !errors.Is(err, unix.EAGAIN) {
			break
		}
		time.Sleep(pause + pause/10)
	}
	if err != nil {
		out.note(fmt.Sprintf("The CPU priority of this session could not be set to nice %d: %v.", nice, err))
	}
}
