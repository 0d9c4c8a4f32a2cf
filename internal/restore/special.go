package restore

import (
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/format/tree"
)

// makeSpecial makes a special object with its metadata in its open directory. If a later run would mistake
// an object without metadata for a finished one, the object gets its name last.
func (j *job) makeSpecial(in *localfs.Dir, o *entry) ([]localfs.Problem, error) {
	n := o.node
	switch {
	case j.needsPrivateDir(o.dir, in):
		return j.makeInPrivateDir(in, o)
	case !j.keepsUnread():
		if err := makeNode(in, n, n.Name); err != nil {
			return nil, appeared(err)
		}
		if o.dir.plain {
			return j.maker.Entry(in, n.Name, n, firstNodeMode), nil
		}
		return in.Apply(n.Name, n, j.to.Apply), nil
	}
	as := tempName(n.Name)
	err := makeNode(in, n, as)
	if err != nil && in.Remove(as, false) == nil {
		err = makeNode(in, n, as)
	}
	if err != nil {
		return nil, err
	}
	return j.publish(in, as, in, o)
}

// makeInPrivateDir makes o in a private directory and moves it to its name when it is finished. In a shared directory,
// other users could replace the object between two calls.
func (j *job) makeInPrivateDir(in *localfs.Dir, o *entry) ([]localfs.Problem, error) {
	as := tempName(o.node.Name)
	apart, err := makePrivateDir(in, as)
	if err != nil {
		return nil, err
	}
	defer func() {
		apart.Release()
		_ = in.Remove(as, true)
	}()
	if err := makeNode(apart, o.node, privateEntry); err != nil {
		return nil, err
	}
	return j.publish(apart, privateEntry, in, o)
}

// publish sets the metadata of the new object from/as, and then moves it to its name.
func (j *job) publish(from *localfs.Dir, as string, in *localfs.Dir, o *entry) ([]localfs.Problem, error) {
	n := o.node
	e, err := from.Pin(as, n.Type)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	o.link.setIdentity(e.Stat())
	ps := e.Apply(n, j.to.Apply.BeforeName())
	if err := nameNew(from, in, as, n.Name); err != nil {
		_ = from.Remove(as, false)
		return ps, err
	}
	if localfs.Late(n) {
		ps = append(ps, e.Apply(n, j.to.Apply.AfterName())...)
	}
	return ps, nil
}

// firstNodeMode is the mode with which a special object is made.
const firstNodeMode = 0o600

func makeNode(in *localfs.Dir, n *tree.Node, as string) error {
	if n.Type == tree.Symlink {
		return in.Symlink(n.Target, as)
	}
	return in.Mknod(as, n.Type, firstNodeMode, n.Device)
}
