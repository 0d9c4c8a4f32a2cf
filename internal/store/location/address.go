package location

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/s3"
	"github.com/tidemark-backup/tidemark/internal/store/sftp"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// Address is where a repository on a server is.
type Address interface {
	String() string // without secrets
	Server() string // name or address
	// Dialled returns host:port of what is connected to..
	Dialled() string
	// Parent returns the folder above; false: there is none.
	Parent() (Address, bool)
	// dial opens the folder, or creates it.
	dial(ctx context.Context, a Access, create bool) (store.Remote, error)
}

// parseAddress reads the part after a scheme in lower case. It returns nil for a scheme that is not known.
func parseAddress(scheme, rest string) (at Address, err error) {
	switch scheme {
	case "smb":
		var t smb.Target
		t, err = smb.Parse(smb.Scheme + rest)
		at = share{t}
	case "s3":
		var t s3.Target
		t, err = s3.Parse(s3.Scheme + rest)
		at = bucket{t}
	case "sftp":
		var t sftp.Target
		t, err = sftp.Parse(sftp.Scheme + rest)
		at = folder{t}
	}
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	return at, nil
}

// supported names the kinds of locations in error messages.
const supported = "this version keeps repositories in folders, on SMB shares as smb://user@host/share/path, in " +
	"buckets as s3://host/bucket/prefix, and on machines with SSH as sftp://user@host/path"

// share is an address on an SMB share.
type share struct{ smb.Target }

func (s share) Server() string { return s.Host }

func (s share) Dialled() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

func (s share) Parent() (Address, bool) {
	above, ok := parent(s.Path)
	s.Path = above
	return s, ok
}

func (s share) dial(ctx context.Context, a Access, create bool) (store.Remote, error) {
	return opened(pick(create, smb.Create, smb.Open)(ctx, s.Target, a.Share(s.Target)))
}

// bucket is an address in a bucket.
type bucket struct{ s3.Target }

func (b bucket) Server() string { return b.Host() }

func (b bucket) Dialled() string {
	if strings.Contains(b.Endpoint, ":") {
		return b.Endpoint
	}
	return net.JoinHostPort(b.Endpoint, "https")
}

func (b bucket) Parent() (Address, bool) {
	above, ok := parent(b.Prefix)
	b.Prefix = above
	return b, ok
}

func (b bucket) dial(ctx context.Context, a Access, create bool) (store.Remote, error) {
	o, err := a.Bucket(b.Target)
	if err != nil {
		return nil, err
	}
	if !a.Before.IsZero() {
		return opened(s3.OpenBefore(ctx, b.Target, o, a.Before))
	}
	return opened(pick(create, s3.Create, s3.Open)(ctx, b.Target, o))
}

// folder is an address on a machine with SSH.
type folder struct{ sftp.Target }

func (f folder) Server() string { return f.Host }

// Dialled returns the host of the address. The configuration of ssh may connect to another one.
func (f folder) Dialled() string {
	return net.JoinHostPort(f.Host, strconv.Itoa(cmp.Or(f.Port, sftp.DefaultPort)))
}

func (f folder) Parent() (Address, bool) {
	above, ok := f.Up()
	return folder{above}, ok
}

func (f folder) dial(ctx context.Context, a Access, create bool) (store.Remote, error) {
	return opened(pick(create, sftp.Create, sftp.Open)(ctx, f.Target, a.SSH(f.Target)))
}

// parent returns the folder above one, "" for the root; false: it is the root.
func parent(folder string) (string, bool) {
	above := path.Dir(folder)
	if above == "." {
		above = ""
	}
	return above, folder != ""
}

func pick[F any](create bool, yes, no F) F {
	if create {
		return yes
	}
	return no
}

// opened returns a store as an interface, which is nil after an error.
func opened[S store.Remote](st S, err error) (store.Remote, error) {
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Dial connects to the server of l and opens the folder there, for a test of it. l must be on a server.
func (l Location) Dial(ctx context.Context, a Access) (store.Remote, error) {
	return a.Connect(func() (store.Remote, error) { return l.Address.dial(ctx, a, false) })
}
