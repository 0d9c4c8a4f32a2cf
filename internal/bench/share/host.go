package share

import (
	"context"
	"os"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store/smb"
	"github.com/tidemark-backup/tidemark/internal/test/smbtest"
)

// host is where the share is, and what has to be taken away at the end.
type host struct {
	smbtest.Host
	scratch string
	share   *smbtest.Server
}

func (h *host) close() error {
	h.Close()
	return os.RemoveAll(h.scratch)
}

// server starts the one Samba that all measurements use.
func (h *host) server() (*smbtest.Server, error) {
	if h.share != nil {
		return h.share, nil
	}
	folder, err := os.MkdirTemp(h.scratch, "share-")
	if err != nil {
		return nil, err
	}
	h.share = smbtest.Start(&h.Host, smbtest.Config{Folder: folder})
	return h.share, nil
}

// open makes a folder on the share and a store in it, connected to a port. The store is closed at the end.
func (h *host) open(ctx context.Context, port int, name string, o smb.Options) (*smb.Store, error) {
	o.Credentials = func(context.Context) (smb.Secret, error) { return smb.Secret{Password: smbtest.Password}, nil }
	o.Patience.Request = 2 * time.Minute
	st, err := smb.Create(ctx, smb.Target{
		User: h.share.User, Host: "127.0.0.1", Port: port, Share: smbtest.Share, Path: name,
	}, o)
	if err != nil {
		return nil, err
	}
	h.Cleanup(func() { _ = st.Close() })
	return st, nil
}
