package unlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Terminal asks on the controlling terminal, so that standard input is free for data.
type Terminal struct{ tty *os.File }

// OpenTerminal returns nil without a controlling terminal, or if messages go elsewhere, as from cron.
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

// Ask shows the prompt and reads a line without echo. It returns when ctx ends, so a signal interrupts it, and restores
// the state of the terminal.
func (t *Terminal) Ask(ctx context.Context, prompt string) (string, error) {
	state, err := term.GetState(int(t.tty.Fd()))
	if err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", err)
	}
	line, err := t.read(ctx, prompt, func() ([]byte, error) { return term.ReadPassword(int(t.tty.Fd())) })
	if ctx.Err() != nil {
		err = errors.Join(err, term.Restore(int(t.tty.Fd()), state))
	}
	fmt.Fprintln(t.tty)
	if err != nil {
		return "", fmt.Errorf("ask for passphrase: %w", err)
	}
	return line, nil
}

// lineLength is how many bytes a terminal returns of one line at most.
const lineLength = 4096

// Line shows the prompt and reads a line, which the terminal shows as it is typed. It returns when ctx ends.
func (t *Terminal) Line(ctx context.Context, prompt string) (string, error) {
	line, err := t.read(ctx, prompt, func() ([]byte, error) {
		line := make([]byte, lineLength)
		n, err := t.tty.Read(line) // a terminal returns no more than one line
		return line[:n], err
	})
	if err != nil {
		fmt.Fprintln(t.tty)
		if errors.Is(err, io.EOF) {
			return "", errors.New("the input ended without an answer; run the same command again")
		}
		return "", fmt.Errorf("read an answer: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// Confirm asks a question and reports whether the answer is yes.
func (t *Terminal) Confirm(ctx context.Context, question string) (bool, error) {
	line, err := t.Line(ctx, question+" [y/N] ")
	word := strings.ToLower(strings.TrimSpace(line))
	return word == "y" || word == "yes", err
}

// Say shows a text.
func (t *Terminal) Say(text string) { fmt.Fprint(t.tty, text) }

// read shows the prompt and returns what do reads. After a canceled ctx, do stays in its read until the program exits.
func (t *Terminal) read(ctx context.Context, prompt string, do func() ([]byte, error)) (string, error) {
	if _, err := fmt.Fprint(t.tty, prompt); err != nil {
		return "", err
	}
	type answer struct {
		line []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := do()
		answers <- answer{line, err}
	}()
	select {
	case got := <-answers:
		return string(got.line), got.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
