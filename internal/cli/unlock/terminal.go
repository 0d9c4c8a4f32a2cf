package unlock

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/term"
)

// Terminal asks on the controlling terminal, so that standard input is free for data.
type Terminal struct{ tty *os.File }

// OpenTerminal returns nil when there is nobody to ask: no controlling terminal, or messages go elsewhere, as from cron.
func OpenTerminal(messages any) *Terminal {
	f, ok := messages.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return &Terminal{tty: tty}
}

// Ask shows the prompt and reads a line without echo. It ends with ctx, so that a signal is heeded here too, and leaves the
// terminal as it was.
func (t *Terminal) Ask(ctx context.Context, prompt string) (string, error) {
	state, err := term.GetState(int(t.tty.Fd()))
	if err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", err)
	}
	if _, err := fmt.Fprint(t.tty, prompt); err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", err)
	}
	type answer struct {
		line []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // lives on in a read that nobody ends, until the program does
		line, err := term.ReadPassword(int(t.tty.Fd()))
		answers <- answer{line, err}
	}()
	var got answer
	select {
	case got = <-answers:
	case <-ctx.Done():
		got.err = errors.Join(context.Cause(ctx), term.Restore(int(t.tty.Fd()), state))
	}
	fmt.Fprintln(t.tty)
	if got.err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", got.err)
	}
	return string(got.line), nil
}
