package output

import (
	"fmt"
	"io"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// Keys lists the key slots.
type Keys struct{ Slots []repo.Slot }

// Text writes a table; a star marks the key in use.
func (k *Keys) Text(w io.Writer) error {
	t := table{head: []string{"", "ID", "Kind", "Made by~", "Made"}}
	for _, s := range k.Slots {
		star := ""
		if s.Current {
			star = "*"
		}
		if s.Slot == nil {
			t.add(star, s.ID.Short(), "cannot be read", human.Printable(s.Err.Error()), "")
			continue
		}
		t.add(star, s.ID.Short(), s.Slot.Method.String(), human.Printable(s.Slot.Label),
			time.Unix(s.Slot.Created, 0).Format("2006-01-02 15:04:05"))
	}
	return t.write(w)
}

// Events returns a record for each slot that can be read.
func (k *Keys) Events() []any {
	var all []any
	for _, s := range k.Slots {
		if s.Slot != nil {
			all = append(all, &event.Key{Type: "key", ID: s.ID.String(), Current: s.Current, Method: method(s.Slot.Method),
				Label: s.Slot.Label, Created: time.Unix(s.Slot.Created, 0)})
		}
	}
	return all
}

func method(m keyfile.Method) string {
	switch m {
	case keyfile.Passphrase:
		return "passphrase"
	case keyfile.KeyFile:
		return "keyfile"
	case keyfile.Recovery:
		return "recovery"
	}
	return m.String()
}

// KeyChange is a key that was added or removed.
type KeyChange struct {
	Change string    `json:"change"` // "added", "removed"
	ID     format.ID `json:"id"`
}

// Text writes one line.
func (k *KeyChange) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "key %s %s\n", k.ID.Short(), k.Change)
	return err
}

// Events returns the record.
func (k *KeyChange) Events() []any { return []any{event.Of("key_change", k)} }
