package unlock

import (
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

// Ask shows the prompt and reads a line without echo.
func (t *Terminal) Ask(prompt string) (string, error) {
	state, err := term.GetState(int(t.tty.Fd()))
	if err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", err)
	}
	fmt.Fprint(t.tty, prompt)
	line, err := term.ReadPassword(int(t.tty.Fd()))
	fmt.Fprintln(t.tty)
	if err != nil {
		return "", errors.Join(fmt.Errorf("ask for passphrase: %w", err), term.Restore(int(t.tty.Fd()), state))
	}
	return string(line), nil
}
