//go:build linux || darwin

package shared_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy/shared"
)

// Two jobs share a disk: one publishes that it is reading, the other sees it, and they share one slot of each I/O
// period.
func ExampleAttach() {
	parent, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "tidemark") // shared.RuntimeDir(os.LookupEnv), in a program

	restore, err := shared.Attach(dir, "sda@12", shared.Options{Policy: iopolicy.Important})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer restore.Close()
	backup, err := shared.Attach(dir, "sda@12", shared.Options{Policy: iopolicy.Throttle})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer backup.Close()

	restore.Enter(0)
	fmt.Println("tier 0 is at the disk:", backup.Seen().Inflight[0])
	restore.Publish(0, time.Now())
	restore.Leave(0)
	fmt.Println("and now:", backup.Seen().Inflight[0])

	now := time.Now()
	ok, _ := backup.Claim(3, now, 200*time.Millisecond)
	fmt.Println("one slot:", ok)
	ok, next := backup.Claim(3, now, 200*time.Millisecond)
	fmt.Println("another:", ok, "before", next.Sub(now))
	// Output:
	// tier 0 is at the disk: true
	// and now: false
	// one slot: true
	// another: false before 200ms
}
