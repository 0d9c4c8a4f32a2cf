// Package mount shows a tree of package view in the file system, through FUSE.
//
// The kernel names an object by a node number. Here it is the number of a directory and the number of the entry in it.
// So memory is needed for the directories that the kernel remembers, and none for their entries:
//
//	node number = directory << 32 | 1              the directory itself
//	              directory << 32 | 2 + entry      one of its entries that is no directory
//
// Snapshots do not change, so the kernel may keep all that it has seen of them.
package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tidemark-backup/tidemark/internal/view"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// Type is the type of these mounts in the mount table.
const Type = "fuse.tidemark"

const (
	// forever is how long the kernel keeps what does not change, and brief what does.
	forever = 365 * 24 * time.Hour
	brief   = time.Second
	// moment is how long a request goes on after a signal for the program that waits for it.
	moment = time.Second
	// transfer is the largest read, in bytes: the most that Linux sends.
	transfer = 1 << 20
	// patience is how long a mount that is in use is tried again before it is detached.
	patience = time.Second
)

// Options are what a mount may have.
type Options struct {
	AllowOther bool   // other users may enter, as far as the modes of the files let them
	Plain      bool   // no extended attributes and ACLs, for faster listings
	Source     string // shown in the mount table
	// Notify receives one line for each object that cannot be read, and about a mount that is in use at the end.
	Notify func(text string)
}

// Serve mounts root at dir, calls mounted, and serves until the context ends or the mount is removed. A mount that is
// in use when the context ends is detached: programs that use it get errors.
func Serve(ctx context.Context, dir string, root view.Entry, load tree.Load, opt Options, mounted func()) error {
	s := newServer(root, load, opt.Notify)
	with := &fuse.MountOptions{
		AllowOther: opt.AllowOther, FsName: opt.Source, Name: "tidemark", MaxWrite: transfer, MaxReadAhead: transfer,
		DisableXAttrs: opt.Plain, ExplicitDataCacheControl: true, EnableSymlinkCaching: true, MaxBackground: 64,
		Logger: log.New(io.Discard, "", 0),
	}
	if opt.AllowOther {
		with.Options = append(with.Options, "default_permissions")
	}
	// The kernel checks the ACLs too: with the mode alone, the mask would count as the rights of the group. It brings
	// default_permissions, under which a user who is not root could not read all files of an own mount, and root would
	// wait for the ACL of each file of others that it opens.
	with.EnableAcl = opt.AllowOther
	readOnly(with)
	server, err := fuse.NewServer(s, dir, with)
	if err != nil {
		return fmt.Errorf("mount at %s: %w", dir, refused(err))
	}
	served := make(chan struct{})
	go func() {
		server.Serve()
		close(served)
	}()
	if err := settled(server); err != nil {
		return fmt.Errorf("mount at %s: %w", dir, errors.Join(err, server.Unmount()))
	}
	mounted()
	select {
	case <-served:
		return nil
	case <-ctx.Done():
	}
	for end := time.Now().Add(patience); ; {
		if err = server.Unmount(); err == nil {
			return nil
		}
		if time.Now().After(end) {
			break
		}
	}
	opt.Notify(fmt.Sprintf("%s is in use: programs that use it get errors now", dir))
	if err := detach(dir); err != nil {
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
