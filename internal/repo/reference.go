package repo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo/object"
	"github.com/tidemark-backup/tidemark/internal/when"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/snapshot"
)

// Latest is the reference to the newest snapshot. "latest~2" is the second one before it of the same host and sources.
const Latest = "latest"

// IsID reports whether a reference is the beginning of an ID: at least four digits, as "3d" may be meant as a time.
// Others may name another snapshot once there is a newer one.
func IsID(ref string) bool {
	return len(ref) >= 4 && strings.Trim(strings.ToLower(ref), "0123456789abcdef") == ""
}

// FindSnapshot returns the snapshot that ref names:
//
//   - "latest", the newest that passes the filter, or "latest~N", the N-th before it of the same host and sources
//   - a time as package when reads it: the newest of a day, or what was the latest at a moment, that passes the filter
//   - the beginning of an ID, for which the filter is ignored
//
// Partial snapshots count only if no whole one passes the filter. The error wraps ErrNoSnapshot if there is none; it is
// an *AmbiguousError if several IDs have that prefix, or snapshots of several hosts or sources are of that day.
func (r *Repository) FindSnapshot(ctx context.Context, ref string, filter Filter) (Listed, error) {
	if IsID(ref) {
		return r.byID(ctx, ref)
	}
	back, span, err := parse(ref)
	if err != nil {
		return Listed{}, fmt.Errorf("find snapshot %q: %w", ref, err)
	}
	all, err := r.Snapshots(ctx)
	if err != nil {
		return Listed{}, err
	}
	c := r.candidates(all, filter)
	var found Listed
	if span == (when.Span{}) {
		found, err = c.back(back)
	} else {
		found, err = c.of(ref, span)
	}
	if err != nil {
		if c.damaged != nil {
			err = fmt.Errorf("%w (and one cannot be read: %w)", err, c.damaged)
		}
		return Listed{}, fmt.Errorf("find snapshot %q%s: %w", ref, filter, err)
	}
	if found.Snapshot.Partial {
		r.warn("the snapshot that is used, %s, is partial: the first backup of its sources has not ended, and files "+
			"are missing", found.ID.Short())
	}
	found.Unread = c.unread
	r.warnUnread(ref, &found)
	return found, nil
}

// parse reads a reference that is no ID. The span is zero for "latest".
func parse(ref string) (back int, span when.Span, err error) {
	if ref == Latest {
		return 0, span, nil
	}
	if text, ok := strings.CutPrefix(ref, Latest+"~"); ok {
		if n, err := strconv.ParseUint(text, 10, 31); err == nil {
			return int(n), span, nil
		}
	}
	if span, err = when.Parse(ref, time.Now()); err != nil {
		return 0, span, fmt.Errorf("write four or more digits of an ID, latest, latest~2, or a time such as %s: %w",
			when.Forms, ErrNoSnapshot)
	}
	return 0, span, nil
}

// byID returns the snapshot whose ID begins with a text.
func (r *Repository) byID(ctx context.Context, prefix string) (Listed, error) {
	infos, kept, err := r.listSnapshots(ctx)
	if err != nil {
		return Listed{}, err
	}
	infos = slices.DeleteFunc(infos, func(info object.Info) bool {
		return !strings.HasPrefix(info.ID.String(), strings.ToLower(prefix))
	})
	switch len(infos) {
	case 0:
		return Listed{}, fmt.Errorf("find snapshot %q: %w", prefix, ErrNoSnapshot)
	case 1:
		l := r.loadListed(ctx, infos[0], kept[infos[0].ID])
		return l, l.Err
	}
	matches := make([]format.ID, len(infos))
	for i := range infos {
		matches[i] = infos[i].ID
	}
	slices.SortFunc(matches, format.ID.Compare)
	return Listed{}, fmt.Errorf("find snapshot: %w", ambiguousID(prefix, matches))
}

// candidates are the snapshots that a reference may name, the newest first.
type candidates struct {
	list    []Listed
	unread  []format.ID // their time is unknown, so each may be the one that is meant
	damaged error       // why one of them cannot be read
}

func (r *Repository) candidates(all []Listed, filter Filter) candidates {
	var c candidates
	var partial []Listed
	for _, l := range slices.Backward(all) {
		switch {
		case l.Err != nil:
			c.damaged, c.unread = l.Err, append(c.unread, l.ID)
			r.note("snapshot %s cannot be read: %v", l.ID.Short(), l.Err)
		case !filter.Match(l.Snapshot):
		case l.Snapshot.Partial:
			partial = append(partial, l)
		default:
			c.list = append(c.list, l)
		}
	}
	if len(c.list) == 0 {
		c.list = partial
	}
	return c
}

// back returns the n-th snapshot before the newest of the same host and sources.
func (c candidates) back(n int) (Listed, error) {
	if len(c.list) == 0 {
		return Listed{}, ErrNoSnapshot
	}
	newest := c.list[0].Snapshot
	row := slices.DeleteFunc(slices.Clone(c.list), func(l Listed) bool { return !sameOrigin(newest, l.Snapshot) })
	if n >= len(row) {
		return Listed{}, fmt.Errorf("%d of this host and these sources, so latest~%d is the oldest: %w", len(row),
			len(row)-1, ErrNoSnapshot)
	}
	return row[n], nil
}

// of returns the newest snapshot of a day, or what was the latest at a moment.
func (c candidates) of(ref string, span when.Span) (Listed, error) {
	var newest []Listed // of each host and set of sources
	var before, after *Listed
	for i := range c.list {
		l := &c.list[i]
		switch at := l.Snapshot.Time.Std(); {
		case !at.Before(span.To):
			after = l
		case span.Day && at.Before(span.At):
			if before == nil {
				before = l
			}
		case !span.Day:
			return *l, nil // what was the latest then
		case !slices.ContainsFunc(newest, func(n Listed) bool { return sameOrigin(n.Snapshot, l.Snapshot) }):
			newest = append(newest, *l)
		}
	}
	switch len(newest) {
	case 0:
		return Listed{}, fmt.Errorf("none is of that time%s: %w", near(before, after), ErrNoSnapshot)
	case 1:
		return newest[0], nil
	}
	e := &AmbiguousError{Ref: ref, Hint: "name one by its ID, or narrow it by --host, --path or --tag"}
	for _, l := range newest {
		e.Matches = append(e.Matches, fmt.Sprintf("%s of %s, %s: %s", l.ID.Short(), timeOf(&l), l.Snapshot.Host,
			strings.Join(l.Snapshot.Sources, ", ")))
	}
	return Listed{}, e
}

// near names the snapshots before and after a time without one.
func near(before, after *Listed) string {
	text := ""
	for _, l := range []*Listed{before, after} {
		if l != nil {
			text += fmt.Sprintf(", %s is of %s", l.ID.Short(), timeOf(l))
		}
	}
	return text
}

func timeOf(l *Listed) string { return time.Unix(l.Snapshot.Time.Sec, 0).Format(time.DateTime) }

// sameOrigin reports whether both snapshots are of the same host and sources.
func sameOrigin(a, b *snapshot.Snapshot) bool {
	sorted := func(s *snapshot.Snapshot) []string { return slices.Sorted(slices.Values(s.Sources)) }
	return a.Host == b.Host && slices.Equal(sorted(a), sorted(b))
}

// warnUnread warns of unreadable snapshots: each may be the one that is meant.
func (r *Repository) warnUnread(ref string, used *Listed) {
	if len(used.Unread) == 0 {
		return
	}
	names := make([]string, len(used.Unread))
	for i, id := range used.Unread {
		names[i] = id.Short()
	}
	r.warn("the %s snapshot is uncertain: %s cannot be read and may be newer than %s of %s, which is used; "+
		"'tidemark check' shows what is wrong", ref, strings.Join(names, ", "), used.ID.Short(), timeOf(used))
}
