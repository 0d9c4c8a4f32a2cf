package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/tidemark-backup/tidemark/internal/cli/output"
	"github.com/tidemark-backup/tidemark/internal/place"
	"github.com/tidemark-backup/tidemark/internal/place/unlock"
	"github.com/tidemark-backup/tidemark/internal/proofs"
	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// recordUnconfirmed records that a recovery key is about to be shown, until it is confirmed.
func (a *app) recordUnconfirmed(id, key string) {
	if err := a.place.Secrets().Pending(id).Record(key); err != nil {
		a.print.Note(err.Error())
	}
}

// confirmRecovery asks for the last group of the recovery key, at a terminal up to three times.
func (a *app) confirmRecovery(ctx context.Context) error {
	st, err := a.store(ctx)
	if err != nil {
		return err
	}
	id := place.RepositoryID(ctx, st)
	if id == "" {
		return fmt.Errorf("open repository at %s: %w", st.Location(), repo.ErrNoRepository)
	}
	pending := a.place.Secrets().Pending(id)
	if !pending.Exists() {
		return unlock.ErrNotPending
	}
	ask, tries := a.lastGroup, 1
	if terminal := a.terminal(); terminal != nil {
		ask, tries = terminal.Line, place.Attempts
	}
	for ; ; tries-- {
		typed, err := ask(ctx, "Last group of the recovery key: ")
		if err != nil {
			return err
		}
		err = pending.Confirm(typed)
		if err == nil {
			return a.print.Print(output.Confirmed(id))
		}
		if tries == 1 || !errors.Is(err, unlock.ErrOtherKey) && !errors.Is(err, keyfile.ErrMistyped) {
			return err // else a person may have mistyped it
		}
		a.print.Show(err.Error() + "\n")
	}
}

// noteWithoutRecovery notes that the repository has no recovery key, and ends the reminder of one.
func (a *app) noteWithoutRecovery(ctx context.Context, r *repo.Repository) {
	slots, err := r.Slots(ctx)
	if err != nil || slices.ContainsFunc(slots,
		func(s repo.Slot) bool { return s.Slot == nil || s.Slot.Method == keyfile.Recovery }) {
		return
	}
	if err := a.place.Secrets().Pending(r.ID()).Remove(); err != nil {
		a.print.Note(err.Error())
	}
	a.print.Note("this repository has no recovery key: 'tidemark key recovery' makes one")
}

// lastGroup reads the last group of the recovery key from standard input.
func (a *app) lastGroup(context.Context, string) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(a.In, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the last group of the recovery key: %w", err)
	}
	if strings.TrimSpace(line) == "" {
		return "", usagef("no terminal to ask on: write the last group of the recovery key to standard input")
	}
	return line, nil
}

// terminal returns the terminal for questions and their answers; nil if standard input or standard error is none.
func (a *app) terminal() *unlock.Terminal {
	if in, ok := a.In.(*os.File); !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return unlock.OpenTerminal(a.Err)
}

// remind notes after a backup what still endangers it: damage that the last check found (only a check shows whether the
// backup healed it), an unconfirmed recovery key, and the default repository on the disk of a source.
func (a *app) remind(r *repo.Repository, sources []string) {
	if folder := a.cacheFolder(r); folder != "" {
		if known, err := proofs.ReadSummary(folder); err == nil && known.Damage.Problems > 0 {
			a.print.Note("the last check found damage: 'tidemark check' shows whether this backup has healed all of it")
		}
	}
	if a.place.Secrets().Pending(r.ID()).Exists() {
		a.print.Note("the recovery key is not confirmed yet: run 'tidemark key recovery --confirm'")
	}
	at, err := a.place.Location()
	if err != nil || a.spec.Repository().Named || a.otherDisk(at.Folder, sources) {
		return
	}
	a.print.Note("this repository protects from mistakes, not a dead disk: see 'tidemark setup'")
}

// otherDisk reports whether a folder is known to be on another disk than all sources.
func (a *app) otherDisk(folder string, sources []string) bool {
	to, err := a.devices.Of(folder)
	if err != nil || to.Key == "" {
		return false
	}
	for _, source := range sources {
		from, err := a.devices.Of(source)
		if err != nil || from.Key == "" || device.Overlaps(from, to) {
			return false
		}
	}
	return true
}
