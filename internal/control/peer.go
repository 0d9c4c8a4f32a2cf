package control

import (
	"fmt"
	"net"
	"os"
)

// checkPeer refuses a connection whose other end belongs to neither this user nor root, who can do anything anyway. The
// permissions of the directory keep others out already; this is for a directory that was opened by mistake.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("look who is there: %w", err)
	}
	var uid int
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peer(int(fd)) }); err != nil {
		return fmt.Errorf("look who is there: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("look who is there: %w", failed)
	}
	if uid != os.Geteuid() && uid != 0 {
		return fmt.Errorf("%w: %d", errStranger, uid)
	}
	return nil
}
