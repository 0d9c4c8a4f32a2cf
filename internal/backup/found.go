package backup

import (
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scan"
)

// found is what a name turned out to stand for when it was opened.
type found uint8

const (
	isRead  found = iota // the file that was scanned; its result is complete, whatever it is
	isLarge              // a file too large for a batch; nothing was done
	isOther              // gone or another file than was scanned; its result is complete
)

// meaning tells whether f, which was opened under the name of e, is the file that was scanned.
func meaning(e *scan.Entry, f *localfs.File) found {
	if e.Ino != f.Opened().Ino {
		return isOther
	}
	return isRead
}

// known returns which file e was when it was scanned. Of one on another file system than its directory only the inode is
// known.
func known(j *job, e *scan.Entry) localfs.Known {
	if e.Mount {
		return localfs.Known{}
	}
	return localfs.Known{Dev: j.dir.Dev, Ino: e.Ino}
}
