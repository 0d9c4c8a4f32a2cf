package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/internal/store/smb"
)

// RunShare probes the folder of a Store on a share, through the sessions and the gate of the Store: Options.Pass is not
// used. What the server refuses is in the report and no error; an error means that it could not be looked at, that the
// connection was lost, or that ctx ended, whose cause is then wrapped.
func RunShare(ctx context.Context, st *smb.Store, opt Options) (*Report, error) {
	report := shareReport(st)
	if opt.Now == nil {
		opt.Now = time.Now
	}
	p := &prober{ctx: ctx, report: report, now: opt.Now, device: report.Device, share: true}
	err := st.InRoom(ctx, prefix, func(r *smb.Room, err error) error {
		if err != nil {
			return p.judge(err)
		}
		s := &shareRoom{ctx, r}
		p.folder, p.held = s, r.Held
		return p.judge(p.each(func() error { return p.connection(r) }, func() error { return p.shareSpace(r) },
			p.write, p.rename, p.flush, p.shareNames, p.names, p.foldsCase, p.otherNames, p.times, p.fileIDs))
	})
	if stop := context.Cause(ctx); stop != nil {
		err = errors.Join(stop, err)
	}
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", report.Path, err)
	}
	return report, nil
}

// instantFar is a time in which no server's device takes flushSize, in addition to that of a request: the fastest need
// some tenths of a millisecond for a flush alone.
const instantFar = 200 * time.Microsecond

// shareReport is what is known of a share without trying anything.
func shareReport(st *smb.Store) *Report {
	at := st.Target()
	source := "//" + at.Host + "/" + at.Share
	return &Report{
		Path: st.Location(),
		Device: device.Info{
			Medium: device.Remote, FS: "smb", Server: at.Host, Source: source,
			Why: "It is on a share, which this program talks to by itself.",
		},
		Identity: Identity{FS: "smb", Source: source},
	}
}

// MeasureShare measures the folder of a Store on a share, in a temporary folder, with the sessions and the gate that a
// backup has. What it writes is gone when it returns, also when ctx ends. Needs 50 MB of memory and a little more of space;
// a full target is store.ErrNoSpace.
func MeasureShare(ctx context.Context, st *smb.Store) (speed *Speed, err error) {
	err = st.InRoom(ctx, prefix, func(r *smb.Room, err error) error {
		if err == nil {
			speed, err = measure(ctx, r.Store(), st.Location())
		}
		return err
	})
	if stop := context.Cause(ctx); err != nil && stop != nil && !errors.Is(err, stop) {
		err = errors.Join(stop, err)
	}
	if err != nil {
		return nil, fmt.Errorf("check destination: %w", err)
	}
	return speed, nil
}

// shareRoom is a folder on a share.
type shareRoom struct {
	ctx  context.Context
	room *smb.Room
}

func (s *shareRoom) Write(name string, data []byte, flush bool) error {
	return s.told(s.room.Write(s.ctx, name, data, flush))
}

func (s *shareRoom) Read(name string) ([]byte, localfs.Stat, error) {
	data, e, err := s.room.Read(s.ctx, name)
	st := localfs.Stat{Size: uint64(e.Size), Ino: e.ID}
	st.Mtime.Sec, st.Mtime.Nsec = e.Modified.Unix(), uint32(e.Modified.Nanosecond())
	return data, st, s.told(err)
}

func (s *shareRoom) Rename(old, new string) error { return s.told(s.room.Rename(s.ctx, old, new)) }

func (s *shareRoom) Names() ([]string, error) {
	names, err := s.room.Names(s.ctx)
	return names, s.told(err)
}

func (s *shareRoom) Flush(name string, size int) (dirty, clean time.Duration, err error) {
	dirty, clean, err = s.room.Flush(s.ctx, name, noise(1, size))
	return dirty, clean, s.told(err)
}

func (s *shareRoom) FlushNames() error { return s.told(s.room.FlushNames(s.ctx)) }

// told marks errors that come from the end of the run.
func (s *shareRoom) told(err error) error {
	if err != nil && s.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", localfs.ErrStopped, err)
	}
	return err
}

// connection reports how the way to the server is protected.
func (p *prober) connection(r *smb.Room) error {
	link, err := r.Link(p.ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("SMB %s with %s", link.Dialect, p.device.Server)
	switch {
	case link.Guest:
		p.report.add("connection", Degraded, what+", as a guest.", "anybody who reaches the server can remove what is stored "+
			"there: make a user with a password for backups")
	case link.Encrypted:
		p.report.add("connection", Good, fmt.Sprintf("%s, encrypted (%s).", what, link.Cipher), "")
	case link.Signed:
		p.report.add("connection", Good, what+", each request signed.", "")
	default:
		p.report.add("connection", Told, what+", neither signed nor encrypted.", "somebody on the network could change or remove "+
			"what is sent; what is changed is found out, as a repository is encrypted and authenticated. --smb-sign required, or "+
			"--smb-encrypt, prevents it")
	}
	return nil
}

// shareSpace reports how much the server lets this user write.
func (p *prober) shareSpace(r *smb.Room) error {
	s, err := r.Space(p.ctx)
	if err != nil {
		return err
	}
	if s.Size == 0 && s.Free == 0 {
		p.report.add("space", Told, "The server does not say how much is free.", "")
		return nil
	}
	what := space{free: s.Free, size: s.Size}
	if s.Whole > s.Free {
		what.note = fmt.Sprintf("; the server has %s, and a quota keeps the rest from this user", human.Size(s.Whole))
	}
	p.space(what)
	return nil
}

// flushedFar judges by the time that flushes take whether a server that lies behind a wire flushes anything. The way
// there is in both times, so that the difference is what counts.
func (p *prober) flushedFar(took, idle time.Duration, what string) {
	const doubt = "on a share the time is no proof either way: set 'strict sync = yes' on Samba; what is written is read back, and " +
		"'tidemark check' finds what a power failure of the server took"
	if took-idle < instantFar {
		p.report.add("flush", Told, what+": the server may not flush at all, or keep what it has in memory that outlasts a power "+
			"failure.", doubt)
		return
	}
	p.report.add("flush", Good, what+": the server does something for it.", doubt)
}

// shareNames tries to flush a folder, which a store on a share does without.
func (p *prober) shareNames() error {
	err := p.folder.FlushNames()
	switch {
	case ends(err):
		return err
	case err != nil:
		p.report.add("folder flush", Told, fmt.Sprintf("The server flushes files and not folders: %v.", err),
			"a file that was stored in the last seconds before a power failure of the server may be missing after it; the next "+
				"backup finds out, as a snapshot is written last and names only what was there")
	default:
		p.report.add("folder flush", Told, "The server takes a request to flush a folder.", "")
	}
	return nil
}

// fileIDs looks whether the server's number of a file stays while it is renamed, and on another look.
func (p *prober) fileIDs() error {
	if err := p.folder.Write("id-1", []byte("x"), true); err != nil {
		return err
	}
	_, before, err := p.folder.Read("id-1")
	if err != nil {
		return err
	}
	_, again, err := p.folder.Read("id-1")
	if err != nil {
		return err
	}
	if err := p.folder.Rename("id-1", "id-2"); err != nil {
		return err
	}
	_, after, err := p.folder.Read("id-2")
	if err != nil {
		return err
	}
	const none = "nothing: a repository is not compared by numbers of files"
	switch {
	case before.Ino == 0:
		p.report.add("file IDs", Told, "The server gives files no numbers.", none)
	case before.Ino != again.Ino:
		p.report.add("file IDs", Told, "A file has another number each time it is opened.", none)
	case before.Ino != after.Ino:
		p.report.add("file IDs", Told, "A file gets another number when it is renamed.", none)
	default:
		p.report.add("file IDs", Told, "Files keep their numbers.", "")
	}
	return nil
}

// ends reports whether err says nothing about what was tried: the run was called off, or the target went away.
func ends(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, localfs.ErrStopped) || errors.Is(err, store.ErrGone) || errors.Is(err, store.ErrTemporary) {
		return true
	}
	return away(err)
}
