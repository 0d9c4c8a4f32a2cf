package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/daemon"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/sysinfo"
)

// command adds option groups and argument checks to c. Executing c resolves the options and calls do.
func (a *app) command(c *cobra.Command, do func(ctx context.Context, args []string) error,
	groups ...options.Group) *cobra.Command {
	if len(groups) > 0 {
		completeOptions(c, options.Register(c.Flags(), groups...))
	}
	if c.Args == nil {
		c.Args = noArguments
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		err := checkLocalArguments(c, args)
		if err == nil && (c.Annotations[takesAddress] != "COMMAND" || c.Name() == "backup") {
			err = checkSwitchWords(c, a.Args, args)
		}
		if err == nil {
			err = argumentError(c, check, args)
		}
		if err == nil {
			err = checkSnapshotArgument(c, args)
		}
		return err
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := a.resolve(c); err != nil {
			return err
		}
		return do(c.Context(), args)
	}
	return c
}

// resolve reads the options and chooses the output format.
func (a *app) resolve(c *cobra.Command) error {
	if err := checkLocalFlags(c.Flags()); err != nil {
		return err
	}
	read, err := a.optionReader(c.Flags())
	if err != nil {
		return err
	}
	spec, warnings, err := options.Resolve(c.Flags(), a.Env, read)
	if err != nil && c.Annotations[withoutFile] != "" {
		// What steers the service must work while the file has a mistake.
		warnings = append(warnings, options.Warning{Origin: "options", Text: "the option file has a mistake: " + err.Error()})
		spec, _, err = options.Resolve(c.Flags(), a.Env, func(path string) ([]byte, error) {
			content, err := read(path)
			return options.OnlyStanza(path, content, ""), err
		})
		if err != nil {
			spec, _, err = options.Resolve(c.Flags(), a.Env, func(string) ([]byte, error) { return nil, nil })
		}
	}
	if err != nil {
		return err
	}
	if spec.IO().ByKernel && runtime.GOOS != "darwin" {
		return usagef("--policy-by kernel: only the kernel of macOS carries out these policies: leave it out")
	}
	if err := checkLocalOptions(spec); err != nil {
		return err
	}
	a.use(spec)
	out := a.spec.Output()
	if out.JSON {
		a.print = output.NewJSON(a.Out, a.Err, out.Quiet)
	} else {
		term, _ := a.Env("TERM")
		noColor, _ := a.Env("NO_COLOR") // no-color.org: set and not empty
		a.print = output.NewText(a.Out, a.Err, output.TextOptions{Output: out, Term: term, NoColor: noColor != ""})
	}
	a.warn(a.fresh(c.Name(), warnings))
	a.logs(c.Name())
	a.warnReadable()
	if err := sysinfo.CheckAddressSpace(); err != nil {
		return err
	}
	a.ballast = sysinfo.LimitHeap(a.spec.Parallel(1, options.Media{}).Memory)
	return nil
}

// withoutFile is the annotation of commands that go on without an option file that cannot be used.
const withoutFile = "without-file"

// lenient marks such a command.
func lenient(c *cobra.Command) *cobra.Command { return mark(c, withoutFile) }

// mark gives a command an annotation.
func mark(c *cobra.Command, annotation string) *cobra.Command {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[annotation] = "yes"
	return c
}

// optionReader returns what reads option files. A step of the service gets the content of its own from the service,
// once.
func (a *app) optionReader(flags *pflag.FlagSet) (options.ReadFile, error) {
	text, ok := a.Env(daemon.OptionsVariable)
	named := flags.Lookup("option-file")
	if !ok || named == nil || !named.Changed {
		return os.ReadFile, nil
	}
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, usagef("%s=%q: it is for steps of the service only: unset it", daemon.OptionsVariable, text)
	}
	pipe := os.NewFile(uintptr(number), "options of the service")
	content, err := io.ReadAll(pipe)
	err = errors.Join(err, pipe.Close(), os.Unsetenv(daemon.OptionsVariable))
	if err != nil {
		return nil, fmt.Errorf("read the options of the service: %w", err)
	}
	return func(path string) ([]byte, error) {
		if path == named.Value.String() {
			return content, nil
		}
		return os.ReadFile(path)
	}, nil
}

// warnReadable warns of secret files that all users of this machine can read.
func (a *app) warnReadable() {
	keys, share := a.spec.Keys(), a.spec.Share()
	for _, path := range []string{keys.PasswordFile, keys.KeyFile, share.PasswordFile, share.Credentials} {
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			a.print.Note(fmt.Sprintf("warning: every user of this machine can read %s: chmod 600 it", path))
		}
	}
}

// fresh returns the warnings without those that an earlier run has printed: what has no meaning is worth a line for
// each change of the option file. Scripts and 'tidemark options' get all.
func (a *app) fresh(command string, warnings []options.Warning) []options.Warning {
	var text strings.Builder
	for _, w := range warnings {
		if w.Once {
			text.WriteString(w.String() + "\n")
		}
	}
	out := a.spec.Output()
	path := a.stateFile("warned", a.spec.Server())
	if path != "" && text.Len() > 0 && command != "options" && !out.JSON && !out.Quiet {
		sum := fmt.Sprintf("%x\n", sha256.Sum256([]byte(text.String())))
		if known, err := os.ReadFile(path); err == nil && string(known) == sum {
			return slices.DeleteFunc(warnings, func(w options.Warning) bool { return w.Once })
		}
		if os.MkdirAll(filepath.Dir(path), 0o700) == nil {
			_ = os.WriteFile(path, []byte(sum), 0o600) // if it fails, the next run prints them again
		}
	}
	return warnings
}

func (a *app) warn(warnings []options.Warning) {
	for _, w := range warnings {
		a.print.Note("warning: " + w.String())
	}
}
