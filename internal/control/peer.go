package control

import (
	"fmt"
	"net"
	"os"
)

// checkPeer rejects a connection of another user than this one and root. The permissions of the directory already keep
// others out; this covers a directory whose mode was changed later.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("identify peer: %w", err)
	}
	var uid int
	var failed error
	if err := raw.Control(func(fd uintptr) { uid, failed = peer(int(fd)) }); err != nil {
		return fmt.Errorf("identify peer: %w", err)
	}
	if failed != nil {
		return fmt.Errorf("identify peer: %w", failed)
	}
	if uid != os.Geteuid() && uid != 0 {
		return fmt.Errorf("the other end belongs to another user: %d", uid)
	}
	return nil
}
