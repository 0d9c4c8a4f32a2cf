package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/repo/marks"
	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/repo/session"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/store"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/config"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
	"github.com/tidemark-backup/tidemark/pkg/format/lease"
	"github.com/tidemark-backup/tidemark/pkg/format/mark"
	"github.com/tidemark-backup/tidemark/pkg/format/pack"
)

// kindOf maps kinds of stored files to kinds of problems.
func kindOf(k store.Kind) Kind {
	return [...]Kind{
		store.Config: Config, store.Key: Key, store.Pack: Pack, store.Index: Index, store.Snapshot: Snapshot,
		store.Lease: Lease, store.Mark: Mark,
	}[k]
}

// list returns the files of a kind by ascending name. A file with a foreign name is a problem.
func (c *checker) list(ctx context.Context, kind store.Kind) ([]store.Info, error) {
	defer c.clock.Enter(c.clock.Enter(report.Fetch))
	var infos []store.Info
	var lost misplaced
	defer func() { lost.note(c.found) }()
	for info, err := range c.st.List(store.ReportMisplaced(ctx, lost.add), kind) {
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", kind, err)
		}
		if info.Fence && !lease.IsName(info.Name.ID) && !lease.IsProbe(info.Name.ID) { // made by another program
			lost.add(info.Name, info.Name.Path()+"/")
		}
		if info.Fence || kind == store.Lease && lease.IsProbe(info.Name.ID) {
			continue // no writer
		}
		if marks.Tombstone(info.Name) {
			if err := c.checkTombstone(ctx, info); err != nil {
				return nil, err
			}
			continue
		}
		if _, err := format.ParseID(info.Name.ID); err != nil && kind != store.Lease && kind != store.Config {
			c.found.Add(kindOf(kind), format.ID{}, info.Name.Path(), errForeign)
			continue
		}
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b store.Info) int {
		if a.Name.ID < b.Name.ID {
			return -1
		}
		return 1
	})
	return infos, nil
}

// idOf returns the ID that is the name of a listed file.
func idOf(info store.Info) format.ID {
	id, _ := format.ParseID(info.Name.ID)
	return id
}

// checkSnapshots reads all snapshots. Those that can be read are followed.
func (c *checker) checkSnapshots(ctx context.Context) error {
	var lost misplaced
	all, err := c.r.Snapshots(store.ReportMisplaced(repo.FromTarget(ctx), lost.add))
	if err != nil {
		return err
	}
	lost.note(c.found)
	c.listed = all
	c.found.Expect(uint64(len(all)), 0)
	c.found.Count(func(r *Result) { r.Snapshots = uint64(len(all)) })
	for _, s := range all {
		if s.Err != nil {
			c.found.Add(Snapshot, s.ID, "snapshot "+s.ID.String(), s.Err)
			continue
		}
		c.snapshots = append(c.snapshots, s)
		c.found.Whole()
	}
	return nil
}

// checkSmallFiles checks config, key slots, marks and leases.
func (c *checker) checkSmallFiles(ctx context.Context) error {
	c.found.Expect(1, 0)
	if err := c.checkConfig(ctx); err != nil {
		return err
	}
	if err := c.checkKeys(ctx); err != nil {
		return err
	}
	marks, err := c.list(ctx, store.Mark)
	if err != nil {
		return err
	}
	leases, err := c.list(ctx, store.Lease)
	if err != nil {
		return err
	}
	c.found.Expect(uint64(len(marks)+len(leases)), 0)
	c.marked, c.doomed = make(map[format.ID]bool), make(map[format.ID]bool)
	c.found.Marked(c.marked)
	for _, info := range marks {
		if err := c.checkMark(ctx, info); err != nil {
			return err
		}
	}
	for _, info := range leases {
		if err := c.checkLease(ctx, info); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkConfig(ctx context.Context) error {
	read := func(ctx context.Context) error {
		raw, err := object.ReadFile(ctx, c.st, store.Name{Kind: store.Config}, -1)
		if err == nil {
			_, _, err = config.Decode(raw)
		}
		if err == nil && c.keys != nil {
			err = config.Verify(raw, c.keys)
		}
		return err
	}
	err := read(ctx)
	if object.IsDamage(err) {
		err = read(store.SecondLook(ctx))
	}
	return c.found.Judge(ctx, Config, format.ID{}, "config", err)
}

func (c *checker) checkKeys(ctx context.Context) error {
	infos, err := c.list(ctx, store.Key)
	if err != nil {
		return err
	}
	c.found.Expect(uint64(len(infos)), 0)
	readable := 0
	for _, info := range infos {
		err := errors.New("it is larger than any key slot")
		if info.Size <= keyfile.MaxSize {
			var raw []byte
			if raw, err = object.ReadNamed(ctx, c.st, info.Name, info.Size); err == nil {
				_, err = keyfile.Decode(raw)
			}
		}
		if err == nil {
			readable++
		}
		if err := c.found.Judge(ctx, Key, idOf(info), "key "+info.Name.ID, err); err != nil {
			return err
		}
	}
	if readable == 0 {
		c.found.Add(Key, format.ID{}, "keys", errNoKeys)
	}
	return nil
}

func (c *checker) checkMark(ctx context.Context, info store.Info) error {
	plain, err := object.Load(ctx, c.st, c.keys, info.Name, info.Size)
	if errors.Is(err, store.ErrNotExist) {
		return nil // a concurrent prune has removed it
	}
	if err == nil {
		var m *mark.Mark
		m, err = mark.Decode(plain)
		switch {
		case err != nil:
		case m.Damaged:
			for _, id := range m.Packs {
				c.marked[id] = true
			}
			c.found.Note("mark %s: %s marked as missing or damaged on %s, by %s", idOf(info).Short(),
				human.Plural(uint64(len(m.Packs)), "file"), time.Unix(m.Created, 0).Format(time.DateTime), m.Host)
		default:
			for _, id := range m.Packs {
				c.doomed[id] = true
			}
			c.found.Note("mark %s: a prune of %s marked %s for deletion and has not ended yet", idOf(info).Short(),
				time.Unix(m.Created, 0).Format(time.DateTime), human.Plural(uint64(len(m.Packs)), "pack"))
		}
	}
	return c.found.Judge(ctx, Mark, idOf(info), "mark "+info.Name.ID, err)
}

// checkTombstone verifies a tombstone: without the key, only its name.
func (c *checker) checkTombstone(ctx context.Context, info store.Info) (err error) {
	if c.keys != nil {
		_, err = marks.LoadTombstone(ctx, c.st, c.keys, info)
	} else {
		var sum *pack.Sum
		sum, err = object.Sum(ctx, c.st, info.Name, info.Size, make([]byte, min(info.Size, maxRead)))
		if err == nil && marks.TombstoneOf(sum.File()) != info.Name {
			err = errName
		}
	}
	if errors.Is(err, store.ErrNotExist) {
		return nil // a prune has removed it meanwhile
	}
	c.found.Expect(1, 0)
	if err != nil && object.IsDamage(err) || errors.Is(err, errName) {
		c.found.Note("%s, which names forgotten snapshots, is damaged; nothing depends on it, and the next prune removes it",
			info.Name.Path())
		return nil
	}
	return c.found.Judge(ctx, Mark, format.ID{}, info.Name.Path(), err)
}

func (c *checker) checkLease(ctx context.Context, info store.Info) error {
	if info.Size == 0 { // leases are not flushed: see package local
		c.found.Note("lease %s is empty: the machine failed while a command was writing, on %s", info.Name.ID,
			info.Modified.Local().Format(time.DateTime))
		return nil
	}
	plain, err := object.Load(ctx, c.st, c.keys, info.Name, info.Size)
	if errors.Is(err, store.ErrNotExist) {
		return nil // its writer has ended
	}
	if err == nil {
		var l *lease.Lease
		if l, err = lease.Decode(plain); err == nil {
			c.found.Note("process %d on %s is writing, or was killed; its lease was last renewed on %s", l.PID, l.Host,
				info.Modified.Local().Format(time.DateTime))
		}
	}
	if object.IsDamage(err) { // no data depends on it
		c.found.Note("lease %s is damaged: its writer was killed, or writes a new one; it may keep prunes waiting until %s "+
			"at the latest, by the clock of the target", info.Name.ID,
			info.Modified.Add(session.LeaseExpiry+session.LeaseExpiry/2).Local().Format(time.DateTime))
		return nil
	}
	var id format.ID
	copy(id[:], info.Name.ID)
	return c.found.Judge(ctx, Lease, id, "lease "+info.Name.ID, err)
}
