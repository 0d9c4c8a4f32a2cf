package restore

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// entry is one name of the snapshot, and where it is restored.
type entry struct {
	dir  *dir
	node *tree.Node // with mapped owners
	path string     // inside the snapshot
	link *link      // set if the object has other names
}

// action is what a restore does with one entry, and why. An executor carries it out.
type action struct {
	what    verb
	why     string
	old     localfs.Stat   // of the existing object; not for create
	held    *localfs.Entry // the existing object, if it was compared
	differ  metadataParts  // what update sets
	unlike  bool           // the contents were compared, and differ
	foreign bool           // the rule leaves an object that may be any other one
	notOurs bool           // the owner differs and stays
}

// verb is what an action does, in the words of a dry run.
type verb string

const (
	create  verb = "restore" // nothing has the name
	replace verb = "replace"
	update  verb = "update" // only metadata differs
	leave   verb = "leave"
	remove  verb = "delete"
)

// Reasons for them.
const (
	reasonMissing = "it is not there"
	reasonSame    = "it is the same"
	reasonRule    = "--overwrite leaves what is there"
	reasonLink    = "it is another name of a file"
	reasonLinked  = "it is there already"
	reasonKept    = "left as it is"
	reasonExtra   = "it is not in the snapshot"
	reasonType    = "something of another type is there"
)

// close releases the existing object.
func (a *action) close() {
	if a.held != nil {
		a.held.Close()
		a.held = nil
	}
}

// makes reports whether the entry is made.
func (a *action) makes() bool { return a.what == create || a.what == replace }

// hold pins the existing object of n's name, unless it did before.
func (a *action) hold(in *localfs.Dir, n *tree.Node) (err error) {
	if a.held != nil {
		return nil
	}
	if a.held, err = in.Pin(n.Name, n.Type); err == nil {
		a.old = *a.held.Stat()
	}
	return err
}

// decide compares o with the existing object of its name. It changes nothing, and looks for nothing where nothing can
// be. An error says why o is not restored. The caller closes the action, also after an error.
func (j *job) decide(ctx context.Context, o *entry) (a action, err error) {
	switch {
	case o.node.Type != tree.Dir && o.node.Outcome >= tree.Skipped:
		return a, errNoContent
	case o.dir.empty():
		return action{what: create, why: reasonMissing}, nil
	}
	err = j.withDir(o.dir, func(in *localfs.Dir) (err error) {
		a.close()
		a, err = j.decideIn(ctx, in, o)
		return err
	})
	return a, err
}

// decideIn is decide in the open directory of o. What is not a directory is held if the rule may replace it, so that an
// action reaches the object that was compared.
func (j *job) decideIn(ctx context.Context, in *localfs.Dir, o *entry) (a action, err error) {
	n, holds := o.node, o.node.Type != tree.Dir
	if holds && j.to.Overwrite == Always && j.survey == nil {
		err = a.hold(in, n)
	} else {
		err = in.Lstat(n.Name, &a.old)
	}
	if err == nil {
		err = j.checkCaseClash(o, in)
	}
	switch {
	case err != nil:
	case n.Type == tree.Dir && a.old.Type == tree.Dir:
		a.what, a.why = leave, reasonSame // its metadata is compared when its entries are finished
		return a, nil
	case !j.ruleReplaces(n, &a.old):
		return a, j.leaveByRule(ctx, in, o, &a)
	case j.survey != nil:
		j.glance(in, o, &a)
		return a, nil
	case holds:
		err = a.hold(in, n)
	}
	if errors.Is(err, localfs.ErrVanished) {
		return action{what: create, why: reasonMissing}, nil
	}
	if err != nil {
		return a, err
	}
	switch {
	case !j.equal(ctx, n, &a):
		a.what, a.why = replace, reasonDiffers(n, &a.old)
		return a, j.permits(in, o, &a)
	case a.differ == 0:
		a.what, a.why = leave, reasonSame
	default:
		a.what, a.why = update, reasonMetadata(a.differ)
	}
	return a, nil
}

// leaveByRule leaves the existing object. Other names of o become links to it, unless it is another object.
func (j *job) leaveByRule(ctx context.Context, in *localfs.Dir, o *entry, a *action) error {
	a.what, a.why = leave, reasonRule
	n := o.node
	if n.Type == tree.Dir {
		return errInTheWay
	}
	if o.link == nil || !j.keepsUnread() {
		return nil
	}
	a.foreign = n.Type != tree.File || a.old.Type != tree.File || a.old.Mtime != n.ModTime || a.hold(in, n) != nil ||
		!j.sameContent(ctx, a.held, n)
	return nil
}

// glance decides for a survey: an existing object is replaced if something is lost by that.
func (j *job) glance(in *localfs.Dir, o *entry, a *action) {
	if a.what, a.why = leave, reasonSame; !j.isUntouched(o.node, &a.old) && j.loses(in, o.node, a) {
		a.what, a.why = replace, reasonDiffers(o.node, &a.old)
	}
}

// decideName is decide for a further name of the object of o.link.
func (j *job) decideName(o *entry) (a action, err error) {
	a = action{what: create, why: reasonLink}
	if !o.link.ok {
		return a, errNoFirstName
	}
	if o.dir.empty() {
		return a, nil
	}
	err = j.withDir(o.dir, func(in *localfs.Dir) error {
		err := in.Lstat(o.node.Name, &a.old)
		if errors.Is(err, localfs.ErrVanished) {
			return nil
		}
		if err == nil && j.identify(o.link) == identityOf(&a.old) {
			a.what, a.why = leave, reasonLinked
			return nil
		}
		if err == nil {
			err = j.checkCaseClash(o, in)
		}
		switch {
		case err != nil:
			return err
		case !j.ruleReplaces(o.node, &a.old) && j.to.Overwrite != IfChanged:
			a.what, a.why = leave, reasonKept
			return nil
		}
		a.what = replace
		return j.permits(in, o, &a)
	})
	return a, err
}

// equal reports whether the held object is n apart from metadata, and sets a.differ. Root changes no owner of a special
// object: nothing shows that the object is ours.
func (j *job) equal(ctx context.Context, n *tree.Node, a *action) bool {
	switch {
	case n.Type == tree.File:
		return j.equalFile(ctx, n, a)
	case !isSpecial(a.held, n, &a.old):
		return false
	}
	a.differ = compareMetadata(a.held, n, &a.old, j.to.Apply)
	return a.differ&partOwner == 0 || os.Geteuid() != 0
}

// equalFile reports whether the held file has the content of n, and sets a.differ. A file with more links than in the
// snapshot may be shared with other programs and is not equal. Neither is a file with several links and other metadata,
// since a correction would change all its names. Without root, a different owner is accepted.
func (j *job) equalFile(ctx context.Context, n *tree.Node, a *action) bool {
	st := &a.old
	if st.Type != tree.File || st.Size != n.Size || st.Links > max(n.Links, 1) {
		return false
	}
	if _, err := openReadable(a.held); err != nil {
		return false
	}
	a.differ = compareMetadata(a.held, n, st, j.to.Apply)
	if st.Links > 1 && a.differ != 0 && (a.differ != partOwner || os.Geteuid() == 0) {
		return false
	}
	if a.unlike = !j.sameContent(ctx, a.held, n); a.unlike {
		return false
	}
	if st.Links > 1 && a.differ == partOwner {
		a.notOurs, a.differ = true, 0
	}
	return true
}

// isSpecial reports whether the object e with status st equals n apart from metadata, and has no more links.
func isSpecial(e *localfs.Entry, n *tree.Node, st *localfs.Stat) bool {
	if st.Type != n.Type || st.Links > max(n.Links, 1) {
		return false
	}
	switch n.Type {
	case tree.Symlink:
		target, err := e.Readlink()
		return err == nil && target == n.Target
	case tree.CharDevice, tree.BlockDevice:
		return st.Rdev == n.Device
	}
	return true
}

// reasonDiffers returns how an existing object with status st differs from n.
func reasonDiffers(n *tree.Node, st *localfs.Stat) string {
	switch {
	case st.Type != n.Type:
		return reasonType
	case n.Type == tree.File && st.Size != n.Size:
		return "its size differs"
	case st.Links > max(n.Links, 1):
		return "it has more names than in the snapshot"
	case n.Type == tree.File:
		return "its content differs, or its metadata and other names share it"
	}
	return "it is another one"
}

func reasonMetadata(differ metadataParts) string {
	return strings.Join(differ.names(), ", ") + " differ"
}
