package restore

import (
	"errors"

	"github.com/tidemark-backup/tidemark/internal/restore/damage"
)

// ErrNoPath: the snapshot does not hold the path that was asked for.
var ErrNoPath = errors.New("no such path in the snapshot (tidemark ls shows what is there)")

// ErrFull: the target has no room for the rest.
var ErrFull = errors.New("the target is full: make room on it and run the same command again, it goes on where it stopped")

// ErrAway: the repository cannot be reached any more.
var ErrAway = damage.ErrAway

var (
	errKept      = errors.New("left as it is")
	errSame      = errors.New("it is there already")
	errNotOwner  = errors.New("it belongs to somebody else there, and only root gives files away")
	errInTheWay  = errors.New("something that is no directory is in the way, and nothing may be overwritten")
	errNotEmpty  = errors.New("a directory that is not empty is in the way: remove it, or use --delete")
	errPartial   = errors.New("this directory could not be listed completely when it was backed up: entries may be missing")
	errNoContent = errors.New("its content could not be read when it was backed up: there is nothing to restore")
	errWrongBlob = errors.New("the repository delivered other bytes than were backed up; nothing was written")
	errAppeared  = errors.New("something by that name has appeared there since the restore began: " +
		"somebody else writes there, or the file system does not tell such names apart; it is left as it is")
	errClash      = errors.New("the file system does not tell such names apart: restore one of them to another place")
	errSpelling   = errors.New("the file system lists it by another name, and which one is not known: nothing is deleted here")
	errOnTheWay   = errors.New("this directory is only on the way to what was backed up: nothing else in it is deleted")
	errSwapped    = errors.New("somebody has put another directory in its place")
	errNotEntered = errors.New("the file system that is mounted here is not in the snapshot: nothing in it is deleted")
	errOurName    = errors.New("a restore gives such names to files it has not finished, and something may come to lie there: " +
		"restore it into a directory that is not there yet, or use dump")
	errLost = errors.New("a part of its content is not in the repository any more")
)
