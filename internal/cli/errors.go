package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/daemon"
	"github.com/tidemark-backup/tidemark/internal/hook"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/store/location"
)

// The exit codes, which are restic's: see docs/exit-codes.md.
const (
	exitOK          = 0   // success
	exitFailed      = 1   // the command failed
	exitUsage       = 2   // malformed flags, arguments or option file; nothing was done
	exitIncomplete  = 3   // the snapshot or the restore lacks objects; or a target is usable but degraded
	exitNoRepo      = 10  // there is no repository at that place
	exitWrongKey    = 12  // no key opens the repository
	exitInterrupted = 130 // a signal ended the program
)

var (
	// errInterrupted is the cause of a context that a signal canceled.
	errInterrupted = errors.New("interrupted; run the same command again to continue")
	// errMeasuring replaces errInterrupted for a measurement, which cannot be continued.
	errMeasuring = errors.New("interrupted; the results so far are valid, and no files are left behind")
	// errNoneThere: a person expects a repository where there is none.
	errNoneThere = errors.New("there is no repository at")
	// errIncomplete: the snapshot lacks objects.
	errIncomplete = errors.New("some objects could not be backed up")
	// errDegraded: the target works with limitations.
	errDegraded = errors.New("the target is usable")
	// errUnfit: the target is not suitable for a repository.
	errUnfit = errors.New("the target is not usable")
	// errUnmatched: a restore has restored nothing of what a pattern of --include asked for.
	errUnmatched = errors.New("a pattern of --include matches nothing, see above")
	// errNotRestored: a restore lacks objects.
	errNotRestored = errors.New("could not be restored, see above")
	// errBinary: binary data would be shown on a terminal.
	errBinary = errors.New("binary data on a terminal: name a file with --target, or pipe the output to another program")
	// errNoMatch: no object matches the file specification of a command of IBM's client.
	errNoMatch = errors.New("no files matching search criteria were found")
)

// usageError is a mistake in how the program was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// exitCode is the one place where errors become exit codes.
func exitCode(err error) int {
	var usage *usageError
	var name *place.NameError
	var option *options.Error
	var program *programError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &program):
		return program.code
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &name), errors.As(err, &option), errors.Is(err, options.ErrConflict),
		errors.Is(err, options.ErrValue), errors.Is(err, hook.ErrUnsafe), errors.Is(err, backup.ErrNoSource),
		errors.Is(err, browse.ErrPattern), errors.Is(err, filepath.ErrBadPattern):
		return exitUsage
	case errors.Is(err, errIncomplete), errors.Is(err, errDegraded), errors.Is(err, errUnmatched),
		errors.Is(err, daemon.ErrIncomplete):
		return exitIncomplete
	case errors.Is(err, repo.ErrNoRepository), errors.Is(err, place.ErrGone), errors.Is(err, location.ErrAway),
		errors.Is(err, errNoneThere):
		return exitNoRepo
	case errors.Is(err, repo.ErrWrongKey), errors.Is(err, unlock.ErrNoSecret):
		return exitWrongKey
	}
	return exitFailed
}

// sourceError is an error of the repository of --from-repo. It names the options for that one.
type sourceError struct{ err error }

// ofSource returns an error of the repository of --from-repo; nil for nil.
func ofSource(err error) error {
	if err == nil {
		return nil
	}
	return &sourceError{err}
}

// Error implements error.
func (e *sourceError) Error() string { return forSource(e.err.Error()) }

// Unwrap returns the error of the repository.
func (e *sourceError) Unwrap() error { return e.err }

// forSource names the options for the keys of --from-repo in place of those for --repo.
func forSource(text string) string {
	return strings.NewReplacer("--password-", "--from-password-", "--key-file", "--from-key-file", "TIDEMARK_PASSWORD",
		"TIDEMARK_FROM_PASSWORD").Replace(text)
}

// message returns the text of an error. An interrupt is reported once, not for each operation that noticed it.
func message(err error) string {
	var program *programError
	if errors.As(err, &program) {
		return program.Error()
	}
	var call *os.SyscallError
	if errors.As(err, &call) && call.Syscall == "getwd" && missing(call.Err) {
		return "the working directory was removed: 'cd' to another one, or to its new place, first"
	}
	switch exitCode(err) {
	case exitInterrupted:
		if errors.Is(err, errMeasuring) {
			return errMeasuring.Error()
		}
		return errInterrupted.Error()
	case exitWrongKey:
		if errors.Is(err, repo.ErrWrongKey) {
			advice := "; check --password-file, --password-command, TIDEMARK_PASSWORD and --key-file"
			if source := (*sourceError)(nil); errors.As(err, &source) {
				advice = forSource(advice)
			}
			return err.Error() + advice
		}
	}
	return err.Error()
}
