package smbtest

import (
	"encoding/hex"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Line is a network between this machine and a server: a pair of virtual interfaces, the far one in a network
// namespace. When it is down, frames are lost silently, as with a cable that is pulled out of the server.
type Line struct {
	Client, Server string // the addresses of the two ends

	t         testing.TB
	near, far string // the names of the interfaces
	keeper    *exec.Cmd
}

// NewLine creates a line until the test ends. It skips the test without the privileges.
func NewLine(t testing.TB) *Line {
	t.Helper()
	for _, tool := range []string{"ip", "unshare", "nsenter"} {
		if find(tool) == "" {
			t.Skipf("needs a network of its own: %s is not installed", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a network of its own")
	}
	l := &Line{t: t}
	l.address()
	l.keep()
	l.ip("link", "add", l.near, "type", "veth", "peer", "name", l.far, "netns", l.space())
	l.ip("addr", "add", l.Client+"/30", "dev", l.near)
	l.ip("link", "set", l.near, "up")
	l.inside("addr", "add", l.Server+"/30", "dev", l.far)
	l.inside("link", "set", "lo", "up")
	l.Up()
	return l
}

// address chooses unused names and an unused network of four addresses from the range for network tests (RFC 2544).
func (l *Line) address() {
	for {
		n := rand.Uint32N(1 << 15)
		low := []byte{byte(18 + n>>14), byte(n >> 6), byte(n << 2)}
		end := func(host byte) string { return net.IPv4(198, low[0], low[1], low[2]+host).String() }
		l.Client, l.Server = end(1), end(2)
		l.near, l.far = "tmn"+hex.EncodeToString(low), "tmf"+hex.EncodeToString(low)
		if _, err := net.InterfaceByName(l.near); err != nil {
			return
		}
	}
}

// keep starts the process that holds the namespace. It ends with its input, so with the test or its process.
func (l *Line) keep() {
	l.t.Helper()
	l.keeper = exec.Command(find("unshare"), "--net", "cat")
	alive, err := l.keeper.StdinPipe()
	require.NoError(l.t, err)
	answer, err := l.keeper.StdoutPipe()
	require.NoError(l.t, err)
	if err := l.keeper.Start(); err != nil {
		l.t.Skipf("needs the right to make a network of its own: %v", err)
	}
	l.t.Cleanup(func() {
		_ = alive.Close()
		_ = l.keeper.Wait()
	})
	_, err = io.WriteString(alive, "x")
	require.NoError(l.t, err)
	if _, err := io.ReadFull(answer, make([]byte, 1)); err != nil { // it is in the namespace before it answers
		l.t.Skip("needs the right to make a network of its own, which unshare did not get")
	}
}

func (l *Line) space() string {
	return filepath.Join("/proc", strconv.Itoa(l.keeper.Process.Pid), "ns/net")
}

func (l *Line) ip(args ...string) {
	l.t.Helper()
	out, err := exec.Command(find("ip"), args...).CombinedOutput()
	require.NoError(l.t, err, "ip %v: %s", args, out)
}

func (l *Line) inside(args ...string) {
	l.t.Helper()
	out, err := l.command(find("ip"), args...).CombinedOutput()
	require.NoError(l.t, err, "ip %v: %s", args, out)
}

// command runs a program at the far end; on this machine if l is nil.
func (l *Line) command(program string, args ...string) *exec.Cmd {
	if l == nil {
		return exec.Command(program, args...)
	}
	return exec.Command(find("nsenter"), append([]string{"--net=" + l.space(), program}, args...)...)
}

// Down interrupts the line.
func (l *Line) Down() {
	l.t.Helper()
	l.inside("link", "set", l.far, "down")
}

// Up restores the line.
func (l *Line) Up() {
	l.t.Helper()
	l.inside("link", "set", l.far, "up")
}

// Limit bounds the rate to the server, in bits per second. It needs tc.
func (l *Line) Limit(rate int) {
	l.t.Helper()
	tool := find("tc")
	if tool == "" {
		l.t.Skip("needs a slow line: tc is not installed (Debian: iproute2)")
	}
	out, err := exec.Command(tool, "qdisc", "replace", "dev", l.near, "root", "tbf", "rate", strconv.Itoa(rate)+"bit",
		"burst", "128kb", "latency", "400ms").CombinedOutput()
	require.NoError(l.t, err, "tc: %s", out)
}

// Outage interrupts the line for a while, in real time.
func (l *Line) Outage(d time.Duration) {
	l.t.Helper()
	l.Down()
	time.Sleep(d)
	l.Up()
}
