package machinestate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// callTimeout is how long the bus or a service on it may take to answer.
const callTimeout = 10 * time.Second

// The objects on the system bus.
const (
	busItself   = "org.freedesktop.DBus"
	login       = "org.freedesktop.login1"
	loginPath   = "/org/freedesktop/login1"
	manager     = "org.freedesktop.login1.Manager"
	network     = "org.freedesktop.NetworkManager"
	networkPath = "/org/freedesktop/NetworkManager"
	powerPath   = "/org/freedesktop/UPower"
	properties  = "org.freedesktop.DBus.Properties"
)

// connect connects to the system bus until ctx ends or the connection is closed.
func (h *Host) connect(ctx context.Context) (*dbus.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(callTimeout, cancel)
	conn, err := dbus.Connect(h.bus, dbus.WithContext(ctx))
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("connect to the system bus: %w", err)
	}
	context.AfterFunc(conn.Context(), cancel)
	return conn, nil
}

// call calls a method of an object and stores its results. It starts no service.
func call(ctx context.Context, conn *dbus.Conn, of, at, method string, args []any, results ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := conn.Object(of, dbus.ObjectPath(at)).CallWithContext(ctx, method, dbus.FlagNoAutoStart,
		args...).Store(results...)
	if err != nil {
		return fmt.Errorf("call %s: %w", method, err)
	}
	return nil
}

// metered reports whether NetworkManager knows or guesses that the network costs by volume.
func (h *Host) metered(ctx context.Context) bool {
	conn, err := h.connect(ctx)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	var value dbus.Variant
	if err := call(ctx, conn, network, networkPath, properties+".Get", []any{network, "Metered"}, &value); err != nil {
		return false
	}
	const yes, guessed = 1, 3 // of NMMetered; 0 is unknown, 2 no, 4 guessed no
	n, _ := value.Value().(uint32)
	return n == yes || n == guessed
}

// Inhibit keeps the machine awake until release is called. logind lets some users only delay a sleep by some seconds.
// Where it refuses, or is missing, nothing is done. release may be called twice.
func (h *Host) Inhibit(ctx context.Context, why string) (release func()) {
	conn, err := h.connect(ctx)
	if err != nil {
		return func() {} // no bus, no sleep
	}
	defer func() { _ = conn.Close() }()
	lock, err := inhibit(ctx, conn, why, "block")
	if denied(err) {
		lock, err = inhibit(ctx, conn, why, "delay")
	}
	if err != nil || lock == nil {
		return func() {}
	}
	return sync.OnceFunc(func() { lock.Close() })
}

// inhibit takes a lock of logind against sleep: nil without logind.
func inhibit(ctx context.Context, conn *dbus.Conn, why, mode string) (*os.File, error) {
	var fd dbus.UnixFD
	err := call(ctx, conn, login, loginPath, manager+".Inhibit", []any{"sleep", "tidemark", why, mode}, &fd)
	if absent(err) {
		return nil, nil //nolint:nilnil // nothing to hold
	}
	if err != nil {
		return nil, err
	}
	unix.CloseOnExec(int(fd))
	return os.NewFile(uintptr(fd), "inhibitor"), nil
}

// denied reports whether a call failed because this user may not make it.
func denied(err error) bool {
	return named(err, "org.freedesktop.DBus.Error.AccessDenied",
		"org.freedesktop.DBus.Error.InteractiveAuthorizationRequired")
}

// absent reports whether a call failed because the service does not run on this machine.
func absent(err error) bool {
	return named(err, "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner")
}

// named reports whether an error of the bus has one of some names.
func named(err error, names ...string) bool {
	var failure dbus.Error
	return errors.As(err, &failure) && slices.Contains(names, failure.Name)
}

// watchBus calls watch until ctx ends: again some time after it returned, since the bus may be restarted.
func (h *Host) watchBus(ctx context.Context, watch func(ctx context.Context)) {
	for watch(ctx); pause(ctx, h.retry); {
		watch(ctx)
	}
}

// subscribe connects to the bus and returns its signals that match, until the connection is lost or closed.
func (h *Host) subscribe(ctx context.Context, matches ...[]dbus.MatchOption) (*dbus.Conn, <-chan *dbus.Signal, error) {
	conn, err := h.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	for _, match := range matches {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		err := conn.AddMatchSignalContext(ctx, match...)
		cancel()
		if err != nil {
			_ = conn.Close()
			return nil, nil, fmt.Errorf("watch the system bus: %w", err)
		}
	}
	return conn, signals, nil
}

// relayProperties reports changes of NetworkManager and UPower until the connection is lost.
func (h *Host) relayProperties(ctx context.Context, changes chan<- struct{}) {
	of := func(path string) []dbus.MatchOption {
		return []dbus.MatchOption{
			dbus.WithMatchObjectPath(dbus.ObjectPath(path)), dbus.WithMatchInterface(properties),
			dbus.WithMatchMember("PropertiesChanged"),
		}
	}
	conn, signals, err := h.subscribe(ctx, of(networkPath), of(powerPath))
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	for s := range signals {
		if s.Name == properties+".PropertiesChanged" {
			signal(changes)
		}
	}
}

// Sleeps returns a channel that gets true when the machine is about to sleep, and false when it is awake again. It
// holds a lock with which logind delays the sleep until Ready is called, by default for at most five seconds. Without
// logind it sends nothing. Sleeps is called once.
func (h *Host) Sleeps(ctx context.Context) <-chan bool {
	sleeps := make(chan bool)
	go func() {
		defer h.Ready()
		h.watchBus(ctx, func(ctx context.Context) { h.relaySleeps(ctx, sleeps) })
	}()
	return sleeps
}

// Ready lets the machine sleep after Sleeps has sent true.
func (h *Host) Ready() { h.setDelay(nil) }

// setDelay replaces the lock that delays a sleep; nil: none.
func (h *Host) setDelay(lock *os.File) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.delay != nil {
		_ = h.delay.Close()
	}
	h.delay = lock
}

// relaySleeps reports sleeps until the connection is lost. It takes the lock at its begin, when logind starts later,
// and after each sleep.
func (h *Host) relaySleeps(ctx context.Context, sleeps chan<- bool) {
	conn, signals, err := h.subscribe(ctx, []dbus.MatchOption{
		dbus.WithMatchObjectPath(loginPath), dbus.WithMatchInterface(manager), dbus.WithMatchMember("PrepareForSleep"),
	}, []dbus.MatchOption{
		dbus.WithMatchInterface(busItself), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, login),
	})
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	takeDelay := func() {
		lock, err := inhibit(ctx, conn, "end a backup in good order", "delay")
		if err == nil {
			h.setDelay(lock)
		}
	}
	takeDelay()
	for s := range signals {
		var about bool
		var name, before, after string
		switch s.Name {
		case manager + ".PrepareForSleep":
			if dbus.Store(s.Body, &about) != nil {
				continue
			}
			if !about {
				takeDelay()
			}
			select {
			case sleeps <- about:
			case <-ctx.Done():
				return
			}
		case busItself + ".NameOwnerChanged":
			if dbus.Store(s.Body, &name, &before, &after) == nil && name == login && after != "" {
				takeDelay()
			}
		}
	}
}
