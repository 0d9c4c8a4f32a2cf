// Package unlock finds the secret that opens a repository: what the options name, the key file of this machine, or what
// a person types. It also makes the secrets of a new repository.
//
// A recovery key works wherever a passphrase does, without a flag: its checksum distinguishes it.
//
// The package prints nothing but prompts.
package unlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// ErrNoSecret: there is no secret to try, and no terminal to ask for one.
var ErrNoSecret = errors.New("no key of this machine opens it and there is no terminal to ask on; give a " +
	"passphrase or the recovery key with --password-file, --password-command or TIDEMARK_PASSWORD, or a key file with " +
	"--key-file")

// ErrEmpty: a passphrase is empty.
var ErrEmpty = errors.New("the passphrase is empty")

// Sources is where secrets come from.
type Sources struct {
	Keys options.Keys
	// Ask shows a prompt to a person and returns what is typed; nil: there is no terminal.
	Ask     func(ctx context.Context, prompt string) (string, error)
	Machine string // folder of the key files of this machine; "" when there is none
	DryRun  bool   // make no key file: its secret is thrown away
	// Flush does what writes to the device of a path and waits until it is there; nil: as it is.
	Flush func(path string, write func() error) error

	asked bool   // a person was asked
	typed string // what the person typed last
}

// Typed returns the passphrase that a person typed, "" for none.
func (s *Sources) Typed() string { return s.typed }

// flush writes.
func (s *Sources) flush(path string, write func() error) error {
	if s.Flush == nil {
		return write()
	}
	return s.Flush(path, write)
}

// Asked reports whether a person was asked, and so may have mistyped.
func (s *Sources) Asked() bool { return s.asked }

// explicit reports whether the options name a secret. Then nothing else is tried, so that a wrong one is reported at
// once.
func (s *Sources) explicit() bool {
	k := s.Keys
	return k.Password != "" || k.PasswordFile != "" || k.PasswordCommand != "" || k.KeyFile != ""
}

// Opener returns what repo.Open asks for the secret of each slot. id is the repository's.
func (s *Sources) Opener(ctx context.Context, id string) (func(*keyfile.Slot) ([]byte, error), error) {
	o := &opener{ctx: ctx, sources: s}
	if !s.explicit() {
		path := s.MachineFile(id)
		secret, err := ReadKeyFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			o.file = secret
		}
		return o.secret, nil
	}
	if s.Keys.KeyFile != "" {
		secret, err := ReadKeyFile(s.Keys.KeyFile)
		if err != nil {
			return nil, err
		}
		o.file = secret
	}
	if text, err := Passphrase(ctx, s.Keys); err != nil {
		return nil, err
	} else if text != "" {
		o.typed(text)
	}
	return o.secret, nil
}

// opener answers for one opening of a repository.
type opener struct {
	ctx        context.Context
	sources    *Sources
	file       []byte // secret of a key file
	passphrase string
	recovery   []byte
	have       bool // passphrase and recovery are found out
}

func (o *opener) typed(text string) {
	o.passphrase, o.have = text, true
	if secret, err := keyfile.ParseRecoveryKey(text); err == nil {
		o.recovery = secret
	}
}

// secret asks a person only when a slot is reached that nothing else opens: key files come first.
func (o *opener) secret(slot *keyfile.Slot) ([]byte, error) {
	if slot.Method == keyfile.KeyFile {
		return o.file, nil
	}
	if !o.have && !o.sources.explicit() {
		if o.sources.Ask == nil {
			return nil, ErrNoSecret
		}
		o.sources.asked = true
		text, err := o.sources.Ask(o.ctx, "Passphrase or recovery key of the repository: ")
		if err != nil {
			return nil, err
		}
		o.sources.typed = text
		o.typed(text)
	}
	if slot.Method == keyfile.Recovery {
		return o.recovery, nil
	}
	if o.passphrase == "" {
		return nil, nil
	}
	return []byte(o.passphrase), nil
}

// Passphrase returns the passphrase that the options name, "" when they name none.
func Passphrase(ctx context.Context, k options.Keys) (string, error) {
	text, err := secretText(ctx, k)
	if err != nil {
		return "", fmt.Errorf("read passphrase: %w", err)
	}
	return text, nil
}

// secretText is what the options name, of whatever it is the secret.
func secretText(ctx context.Context, k options.Keys) (string, error) {
	var text string
	switch {
	case k.Password != "":
		text = string(k.Password)
	case k.PasswordFile != "":
		content, err := os.ReadFile(k.PasswordFile)
		if err != nil {
			return "", err
		}
		text = firstLine(content)
	case k.PasswordCommand != "":
		var err error
		if text, err = run(ctx, hook.Command{Line: k.PasswordCommand, Files: []string{k.CommandFile}}); err != nil {
			return "", err
		}
	default:
		return "", nil
	}
	if text == "" {
		return "", ErrEmpty
	}
	return text, nil
}

// run executes a command line of the user's in a shell, as they would themselves. Root runs one of an option file in
// the folder /, and only if no other user can change it.
func run(ctx context.Context, c hook.Command) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.Line)
	if strings.Join(c.Files, "") != "" && os.Geteuid() == 0 {
		if err := c.Check(); err != nil {
			return "", fmt.Errorf("password command: %w", err)
		}
		cmd.Dir = "/"
	}
	cmd.Env = options.WithoutSecrets(os.Environ())
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second // a child may hold the output
	out, err := cmd.Output()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("run password command: %w", err)
	}
	return firstLine(out), nil
}

func firstLine(content []byte) string {
	line, _, _ := bytes.Cut(content, []byte("\n"))
	return strings.TrimSuffix(strings.TrimPrefix(string(line), "\ufeff"), "\r")
}

// ReadKeyFile returns the secret of a key file. "" is not there.
func ReadKeyFile(path string) ([]byte, error) {
	if path == "" {
		return nil, fs.ErrNotExist
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w: put the file there or give another key (--key-file, --password-file)", err)
	}
	secret, err := keyfile.ParseSecretFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}

// newTries is how often a new passphrase can be entered.
const newTries = 3

// AskTwice asks for a new passphrase, and again if the two entries differ.
func (s *Sources) AskTwice(ctx context.Context, prompt string) (string, error) {
	question := prompt
	for range newTries {
		first, err := s.Ask(ctx, question)
		if err != nil || first == "" {
			return "", err
		}
		second, err := s.Ask(ctx, "The same again: ")
		if err != nil {
			return "", err
		}
		if first == second {
			return first, nil
		}
		question = "The passphrases differ.\n" + prompt
	}
	return "", errors.New("the passphrases differ; nothing was changed")
}

// MachineFile is where this machine keeps the key file of a repository; "": nowhere.
func (s *Sources) MachineFile(id string) string {
	if s.Machine == "" {
		return ""
	}
	return filepath.Join(s.Machine, id+".key")
}

// secretOf makes a secret of a passphrase.
func secretOf(text string) repo.Secret {
	return repo.Secret{Method: keyfile.Passphrase, Value: []byte(text)}
}
