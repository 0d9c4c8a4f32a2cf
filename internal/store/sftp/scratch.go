package sftp

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/tidemark-backup/tidemark/internal/store"
)

// removeTimeout bounds the removal of a scratch folder.
const removeTimeout = 10 * time.Second

// Scratch makes a temporary folder in the folder of the Store, calls use with its name, and removes it with its
// contents, also after ctx has ended. open returns an empty store in a folder next to it, on the same connection.
// Scratch folders of programs that were killed are removed after a day by the clock of the server.
func (s *Store) Scratch(ctx context.Context,
	use func(name string, open func(name string) store.Store) error) (err error) {
	name := store.TempName(store.ScratchPrefix)
	var opened []*Store
	err = s.with(ctx, func(c *channel) error {
		if err := s.makeDir(ctx, c, s.at(name)); err != nil {
			return err
		}
		fresh, err := s.stat(ctx, c, s.at(name))
		if err != nil {
			return err
		}
		return s.sweepFolder(ctx, c, "", fresh.ModTime().Add(-store.StaleAfter))
	})
	if err != nil {
		return err
	}
	defer func() {
		for _, one := range opened {
			one.group.Wait()
		}
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
		defer cancel()
		failed := s.with(end, func(c *channel) error { return c.RemoveAll(s.at(name)) })
		if failed != nil && !errors.Is(failed, store.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove temporary folder %s: %w", name, failed))
		}
	}()
	return use(name, func(name string) store.Store {
		one := &Store{target: s.target, server: s.server}
		one.target.Path = path.Join(s.target.Path, name)
		one.swept.Store(true) // no other program writes there
		opened = append(opened, one)
		return one
	})
}

// Describe describes the connection and what a write is worth.
func (s *Store) Describe(ctx context.Context) (store.Link, error) {
	err := s.with(ctx, func(c *channel) error {
		if _, err := s.stat(ctx, c, s.at("")); err != nil {
			return err
		}
		return s.flushFolder(ctx, c, s.at(""))
	})
	if err != nil {
		return store.Link{}, err
	}
	l := store.Link{Protocol: "sftp", Server: s.target.Host, Source: s.target.Host + ":" + s.at(""),
		What:    "SFTP with " + s.target.Host + s.do(" by the ssh program", " without a program") + ", encrypted (SSH).",
		Durable: "The server acknowledges flushes of files and of folders.", Conditional: true,
		Advice: "whether the server's disk flushes cannot be seen from here"}
	if s.noLinks.Load() {
		l.Remedy = "without hard links on the server, two writers can get one name: prune only with --exclusive, while " +
			"no other process uses the repository"
	}
	switch {
	case s.noFlush.Load():
		l.Durable = "The server has no flush (fsync@openssh.com): a power cut there can lose or tear the last files."
		l.Advice = "run 'tidemark check' after a power failure of the server, or use the SFTP of OpenSSH"
	case s.noFolderFlush.Load():
		l.Durable = "The server flushes files, but no folders: a power cut there can lose the names of the last files."
		l.Advice = "run 'tidemark check' after a power failure of the server, or use the SFTP of OpenSSH"
	}
	return l, nil
}
