package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"syscall"
)

// TCP configures the connection to the server. The zero value leaves it to the system.
type TCP struct {
	Window int // bytes of the send buffer and of the receive buffer of the socket; 0: the system adjusts them
	Write  int // bytes of one write at most; 0: 256 KiB
	// Reduced, if set, is called for each connection that got smaller buffers than Window.
	Reduced func(granted int)
}

// connect opens the connection to the server. The buffers are set before, since the handshake announces how far the
// receive window can grow.
func (t TCP) connect(ctx context.Context, address string) (net.Conn, error) {
	dialer := net.Dialer{}
	if t.Window > 0 {
		dialer.Control = func(_, _ string, c syscall.RawConn) error { return t.setBuffers(c) }
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil || t.Window == 0 || t.Reduced == nil {
		return conn, err
	}
	send, receive, err := buffers(conn)
	if granted := min(send, receive); err == nil && granted < t.Window {
		t.Reduced(granted)
	}
	return conn, nil
}

func (t TCP) setBuffers(c syscall.RawConn) error {
	var err error
	refused := c.Control(func(fd uintptr) {
		err = errors.Join(syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, t.Window),
			syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, t.Window))
	})
	if err = errors.Join(refused, err); err != nil {
		return fmt.Errorf("set TCPWINDOWSIZE: %w", err)
	}
	return nil
}

// buffers returns the sizes of the socket's buffers, in the unit in which they are set: Linux reports twice as much,
// since it counts its own overhead too.
func buffers(conn net.Conn) (send, receive int, err error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0, 0, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return 0, 0, fmt.Errorf("read the buffers of the connection: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var other error
		send, failed = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
		receive, other = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
		failed = errors.Join(failed, other)
	})
	if runtime.GOOS == "linux" {
		send, receive = send/2, receive/2
	}
	return send, receive, errors.Join(err, failed)
}
