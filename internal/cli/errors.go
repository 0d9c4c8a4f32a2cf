package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tidemark-backup/tidemark/internal/browse"
	"github.com/tidemark-backup/tidemark/internal/cli/unlock"
	"github.com/tidemark-backup/tidemark/internal/options"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/scan"
)

// The exit codes, which are restic's. Scripts rely on them: see docs/exit-codes.md.
const (
	exitOK          = 0   // all is well
	exitFailed      = 1   // the command failed
	exitUsage       = 2   // flags, arguments or the option file cannot be understood; nothing was done
	exitIncomplete  = 3   // a snapshot was made, and some objects could not be backed up; a target is usable and degraded
	exitNoRepo      = 10  // there is no repository at that place
	exitWrongKey    = 12  // no key opens the repository
	exitInterrupted = 130 // a signal ended the program
)

var (
	// errInterrupted is the cause that a signal cancels the context with.
	errInterrupted = errors.New("interrupted; run the same command again to go on")
	// errMeasuring: likewise while something was measured, which cannot be gone on with.
	errMeasuring = errors.New("interrupted; what was measured until then stands, and no files are left")
	// errIncomplete: the snapshot lacks objects.
	errIncomplete = errors.New("some objects could not be backed up")
	// errDegraded: a repository can be kept at a target, and not all is as it should be.
	errDegraded = errors.New("the target is usable")
	// errUnfit: a repository cannot be kept at a target.
	errUnfit = errors.New("the target is not usable")
)

// usageError is a mistake in how the program was called.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, a ...any) error { return &usageError{fmt.Errorf(format, a...)} }

// exitCode is the one place where errors become exit codes.
func exitCode(err error) int {
	var usage *usageError
	var program *programError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &program):
		return program.code
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), isOptionError(err), errors.Is(err, scan.ErrNoSource), errors.Is(err, scan.ErrMixedDot),
		errors.Is(err, browse.ErrPattern), errors.Is(err, filepath.ErrBadPattern):
		return exitUsage
	case errors.Is(err, errIncomplete), errors.Is(err, errDegraded):
		return exitIncomplete
	case errors.Is(err, repo.ErrNoRepository):
		return exitNoRepo
	case errors.Is(err, repo.ErrWrongKey), errors.Is(err, unlock.ErrNoSecret):
		return exitWrongKey
	}
	return exitFailed
}

// isOptionError reports whether a place of the configuration is named as wrong.
func isOptionError(err error) bool {
	var one *options.Error
	return errors.As(err, &one) || errors.Is(err, options.ErrConflict) || errors.Is(err, options.ErrValue)
}

// message is what a person reads: of an interruption not the many places it was noticed in.
func message(err error) string {
	var program *programError
	if errors.As(err, &program) {
		return program.Error()
	}
	switch exitCode(err) {
	case exitInterrupted:
		if errors.Is(err, errMeasuring) {
			return errMeasuring.Error()
		}
		return errInterrupted.Error()
	case exitWrongKey:
		if errors.Is(err, repo.ErrWrongKey) {
			return err.Error() + "; look at --password-file, --password-command, TIDEMARK_PASSWORD and --key-file"
		}
	}
	return err.Error()
}
