package machinestate

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

const busConfig = `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`

// privateBus is a bus of the test, in the place of the system bus.
type privateBus struct {
	t      *testing.T
	dir    string
	daemon *exec.Cmd
}

// startBus starts a private bus, and returns a host that uses it.
func startBus(t *testing.T) (*privateBus, *Host) {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("needs dbus-daemon")
	}
	dir, err := os.MkdirTemp("", "bus") // a socket's path has at most 107 bytes
	require.NoError(t, err)
	b := &privateBus{t: t, dir: dir}
	t.Cleanup(func() {
		b.stop()
		require.NoError(t, os.RemoveAll(dir))
	})
	config := fmt.Sprintf(busConfig, filepath.Join(dir, "bus"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	b.start()
	h := hostWith(t, nil)
	h.bus, h.retry = b.address(), 10*time.Millisecond
	return b, h
}

func (b *privateBus) address() string { return "unix:path=" + filepath.Join(b.dir, "bus") }

// start starts the daemon and waits until it listens.
func (b *privateBus) start() {
	b.t.Helper()
	b.daemon = exec.Command("dbus-daemon", "--config-file="+filepath.Join(b.dir, "config"), "--nofork", "--print-address")
	var complaints bytes.Buffer // it may also complain about a limit that it cannot raise
	b.daemon.Stderr = &complaints
	out, err := b.daemon.StdoutPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, b.daemon.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.stop()
		require.NoError(b.t, err, complaints.String())
	}
}

// stop ends the daemon.
func (b *privateBus) stop() {
	if b.daemon != nil {
		_ = b.daemon.Process.Kill()
		_ = b.daemon.Wait()
		b.daemon = nil
	}
}

// own connects a service to the bus, with an object unless it is nil, and then takes a name.
func (b *privateBus) own(name string, object any, path dbus.ObjectPath, as string) *dbus.Conn {
	b.t.Helper()
	conn, err := dbus.Connect(b.address())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = conn.Close() })
	if object != nil {
		require.NoError(b.t, conn.Export(object, path, as))
	}
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	require.NoError(b.t, err)
	require.Equal(b.t, dbus.RequestNameReplyPrimaryOwner, reply)
	return conn
}

// lock is a lock of the fake logind, as it was asked for.
type lock struct {
	what, who, why, mode string
	read, write          *os.File
}

// given closes logind's copy of the descriptor that the client has received.
func (l *lock) given(t *testing.T) *lock {
	t.Helper()
	require.NoError(t, l.write.Close())
	t.Cleanup(func() { l.read.Close() })
	return l
}

// released waits until the other end of a lock is closed.
func (l *lock) released(t *testing.T) {
	t.Helper()
	require.NoError(t, l.read.SetReadDeadline(time.Now().Add(patience)))
	_, err := l.read.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// held requires that the other end of a lock is open.
func (l *lock) held(t *testing.T) {
	t.Helper()
	require.NoError(t, l.read.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := l.read.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// fakeLogin is logind.
type fakeLogin struct {
	conn  *dbus.Conn
	deny  string // mode that is refused; "": none
	taken chan *lock
}

func newLogin(b *privateBus, deny string) *fakeLogin {
	b.t.Helper()
	l := &fakeLogin{deny: deny, taken: make(chan *lock, 100)}
	l.conn = b.own(login, l, loginPath, manager)
	return l
}

// Inhibit implements org.freedesktop.login1.Manager.
func (l *fakeLogin) Inhibit(what, who, why, mode string) (dbus.UnixFD, *dbus.Error) {
	if mode == l.deny {
		return 0, dbus.NewError("org.freedesktop.DBus.Error.AccessDenied", []any{"no"})
	}
	read, write, err := os.Pipe()
	if err != nil {
		return 0, dbus.MakeFailedError(err)
	}
	fd := dbus.UnixFD(write.Fd())
	l.taken <- &lock{what, who, why, mode, read, write}
	return fd, nil // sent after the return
}

// fakeNetwork is NetworkManager.
type fakeNetwork struct{ metered uint32 }

// Get implements org.freedesktop.DBus.Properties.
func (n *fakeNetwork) Get(of, name string) (dbus.Variant, *dbus.Error) {
	if of != network || name != "Metered" {
		return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", nil)
	}
	return dbus.MakeVariant(n.metered), nil
}

func TestMeteredIsWhatNetworkManagerKnowsOrGuesses(t *testing.T) {
	b, h := startBus(t)
	require.False(t, h.Power(t.Context()).Metered, "without NetworkManager")
	conn := b.own(network, nil, "", "")
	require.False(t, h.Power(t.Context()).Metered, "without the property")
	for value, want := range map[uint32]bool{0: false, 1: true, 2: false, 3: true, 4: false} {
		require.NoError(t, conn.Export(&fakeNetwork{value}, networkPath, properties))
		require.Equal(t, want, h.Power(t.Context()).Metered, value)
	}
}

func TestInhibitHoldsALockOfLogind(t *testing.T) {
	b, h := startBus(t)
	login := newLogin(b, "")
	testkit.NoLeaks(t)
	release := h.Inhibit(t.Context(), "a backup runs")
	taken := receive(t, login.taken).given(t)
	require.Equal(t, []string{"sleep", "tidemark", "a backup runs", "block"}, []string{taken.what, taken.who, taken.why,
		taken.mode})
	taken.held(t)
	child := exec.Command("sleep", "1000") // gets no copy of the lock
	require.NoError(t, child.Start())
	release()
	taken.released(t)
	release()
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.NoError(t, taken.read.Close())
}

func TestInhibitOfAUserWithoutTheRightDelays(t *testing.T) {
	b, h := startBus(t)
	login := newLogin(b, "block")
	release := h.Inhibit(t.Context(), "why")
	taken := receive(t, login.taken).given(t)
	require.Equal(t, "delay", taken.mode)
	release()
	taken.released(t)
}

func TestInhibitGoesOnIfLogindRefuses(t *testing.T) {
	b, h := startBus(t)
	b.own(login, refusing{}, loginPath, manager)
	h.Inhibit(t.Context(), "why")()
}

// refusing is a logind that gives no lock.
type refusing struct{}

// Inhibit implements org.freedesktop.login1.Manager.
func (refusing) Inhibit(_, _, _, _ string) (dbus.UnixFD, *dbus.Error) {
	return 0, dbus.NewError("org.freedesktop.DBus.Error.LimitsExceeded", []any{"too many"})
}

func TestWithoutLogindOrBusNothingIsHeld(t *testing.T) {
	_, h := startBus(t)
	for _, h := range []*Host{h, hostWith(t, nil)} {
		release := h.Inhibit(t.Context(), "why")
		release()
		require.Equal(t, Power{Charge: -1}, h.Power(t.Context()))
	}
}

// A bus that accepts connections and does not answer must not block the service longer than ctx.
func TestABusThatHangsIsAbsent(t *testing.T) {
	dir, err := os.MkdirTemp("", "bus")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	silent, err := net.Listen("unix", filepath.Join(dir, "bus"))
	require.NoError(t, err)
	defer silent.Close()
	h := hostWith(t, nil)
	h.bus = "unix:path=" + filepath.Join(dir, "bus")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Equal(t, Power{Charge: -1}, h.Power(ctx))
	release := h.Inhibit(ctx, "why")
	release()
}

// waitDelay waits until the host holds a lock that delays a sleep, or none.
func waitDelay(t *testing.T, h *Host, held bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return held == (h.delay != nil)
	}, patience, time.Millisecond)
}

func TestASleepIsAnnouncedAndDelayed(t *testing.T) {
	b, h := startBus(t)
	login := newLogin(b, "")
	testkit.NoLeaks(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sleeps := h.Sleeps(ctx)
	for range 2 { // two nights
		taken := receive(t, login.taken)
		waitDelay(t, h, true)
		taken.given(t)
		require.Equal(t, "delay", taken.mode)
		require.NoError(t, login.conn.Emit(loginPath, manager+".PrepareForSleep", "not a bool"))
		require.NoError(t, login.conn.Emit(loginPath, manager+".PrepareForSleep", true))
		require.True(t, receive(t, sleeps))
		taken.held(t)
		h.Ready()
		taken.released(t)
		require.NoError(t, taken.read.Close())
		require.NoError(t, login.conn.Emit(loginPath, manager+".PrepareForSleep", false))
		require.False(t, receive(t, sleeps))
	}
	taken := receive(t, login.taken)
	waitDelay(t, h, true)
	taken.given(t)
	cancel() // while the machine is awake
	taken.released(t)
	require.NoError(t, taken.read.Close())
}

func TestASleepIsAnnouncedAfterTheBusWasRestarted(t *testing.T) {
	b, h := startBus(t)
	sleeps := h.Sleeps(t.Context())
	b.stop()
	b.start()
	login := newLogin(b, "")
	receive(t, login.taken)
	require.NoError(t, login.conn.Emit(loginPath, manager+".PrepareForSleep", true))
	require.True(t, receive(t, sleeps))
}

func TestPowerAndNetworkAreChanges(t *testing.T) {
	b, h := startBus(t)
	for name, path := range map[string]dbus.ObjectPath{network: networkPath, "org.freedesktop.UPower": powerPath} {
		t.Run(name, func(t *testing.T) {
			service := b.own(name, nil, "", "")
			testkit.NoLeaks(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			changes := h.Changes(ctx)
			// A change before the host listens is not reported, so it is repeated.
			for range 1000 {
				require.NoError(t, service.Emit(path, properties+".PropertiesChanged", "x", map[string]dbus.Variant{}, []string{}))
				select {
				case <-changes:
					return
				case <-time.After(patience / 1000):
				}
			}
			t.Fatal("no change was reported")
		})
	}
}

func TestALogindThatStartsLaterDelaysASleep(t *testing.T) {
	b, h := startBus(t)
	sleeps := h.Sleeps(t.Context())
	login := newLogin(b, "")
	receive(t, login.taken)
	require.NoError(t, login.conn.Emit(loginPath, manager+".PrepareForSleep", true))
	require.True(t, receive(t, sleeps))
}
