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

// Line is a network of its own between this machine and a server: a pair of virtual interfaces, of which the far one is
// in a network namespace. When it is down, what is sent is lost and nobody is told, as with a cable that is pulled out of
// the server.
type Line struct {
	Client, Server string // the addresses of the two ends

	t         testing.TB
	near, far string // the names of the interfaces
	keeper    *exec.Cmd
}

// NewLine makes a line until the test is over. The test is skipped where that is not allowed.
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

// address chooses names and a network of four addresses among those that are set aside for tests of networks (RFC 2544),
// one that nobody on this machine uses.
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

// keep starts the process that keeps the namespace. It ends with the test, or with its process: then its input ends.
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
	if _, err := io.ReadFull(answer, make([]byte, 1)); err != nil { // it is where it belongs before it answers
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

// command runs a program at the far end. A nil Line has none.
func (l *Line) command(program string, args ...string) *exec.Cmd {
	if l == nil {
		return exec.Command(program, args...)
	}
	return exec.Command(find("nsenter"), append([]string{"--net=" + l.space(), program}, args...)...)
}

// Down pulls the cable out of the server.
func (l *Line) Down() {
	l.t.Helper()
	l.inside("link", "set", l.far, "down")
}

// Up puts it back.
func (l *Line) Up() {
	l.t.Helper()
	l.inside("link", "set", l.far, "up")
}

// Limit bounds what the line carries to the server, in bits per second. It needs tc.
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

// Outage is Down for a while: the clocks of the network cannot be moved.
func (l *Line) Outage(d time.Duration) {
	l.t.Helper()
	l.Down()
	time.Sleep(d)
	l.Up()
}
