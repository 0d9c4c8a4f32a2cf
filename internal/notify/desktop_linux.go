package notify

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"

	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/report/event"
)

// notifyDesktop shows a message on the desktop of this user. Without a desktop, only a test fails.
func notifyDesktop(ctx context.Context, _ *options.Notify, m *event.Notification) error {
	err := showOnBus(ctx, m)
	if err != nil && m.Kind != test {
		return nil
	}
	return err
}

func showOnBus(ctx context.Context, m *event.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, once)
	defer cancel()
	bus, err := dbus.SessionBusPrivateNoAutoStartup(dbus.WithContext(ctx))
	if err != nil {
		return errDesktop
	}
	defer func() { _ = bus.Close() }() // the message was answered
	if err := bus.Auth(nil); err != nil {
		return fmt.Errorf("session bus: %w", err)
	}
	if err := bus.Hello(); err != nil {
		return fmt.Errorf("session bus: %w", err)
	}
	urgency := byte(1)
	if m.Kind == failed || m.Kind == silent || m.Kind == warned {
		urgency = 2 // stays until it is closed
	}
	call := bus.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications").CallWithContext(ctx,
		"org.freedesktop.Notifications.Notify", 0, "tidemark", uint32(0), "", subject(m), m.Text, []string{},
		map[string]dbus.Variant{"urgency": dbus.MakeVariant(urgency)}, int32(-1))
	if call.Err != nil {
		return fmt.Errorf("show the message: %w", call.Err)
	}
	return nil
}
