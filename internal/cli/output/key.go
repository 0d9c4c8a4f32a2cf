package output

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/internal/repo"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
	"github.com/tidemark-backup/tidemark/pkg/format/keyfile"
)

// Keys lists the key slots: a table with a star at the key in use, and a record for each slot that can be read.
func Keys(slots []repo.Slot) Record {
	t := table{head: []string{"", "ID", "Kind", "Made by~", "Made"}}
	var all []any
	for _, s := range slots {
		star := ""
		if s.Current {
			star = "*"
		}
		if s.Slot == nil {
			t.add(star, s.ID.Short(), "cannot be read", human.Printable(s.Err.Error()), "")
			continue
		}
		made := time.Unix(s.Slot.Created, 0)
		t.add(star, s.ID.Short(), s.Slot.Method.String(), human.Printable(s.Slot.Label), made.Format(time.DateTime))
		all = append(all, event.Of("key", &event.Key{ID: s.ID.String(), Current: s.Current,
			Method: method(s.Slot.Method), Label: s.Slot.Label, Created: made}))
	}
	return &result{t.write, all}
}

func method(m keyfile.Method) string {
	return cmp.Or(map[keyfile.Method]string{keyfile.Passphrase: "passphrase", keyfile.KeyFile: "keyfile",
		keyfile.Recovery: "recovery"}[m], m.String())
}

// KeyChange is a key that was changed: "added" or "removed".
func KeyChange(change string, id format.ID) Record {
	return one("key_change", map[string]string{"change": change, "id": id.String()}, func(w *show.Page) {
		fmt.Fprintf(w, "key %s %s\n", id.Short(), change)
	})
}

// Created is a new repository.
type Created struct {
	ID          string `json:"id"`                     // 32 digits
	Place       string `json:"repository"`             // location
	RecoveryKey string `json:"recovery_key,omitempty"` // shown only here
	KeyFile     string `json:"-"`                      // of this machine; "" for none
}

// Text writes where it is.
func (c *Created) Text(w *show.Page) {
	fmt.Fprintf(w, "repository %s created at %s\n", c.ID[:8], human.Printable(c.Place))
	if c.KeyFile != "" {
		fmt.Fprintf(w, "key file of this machine: %s\n", human.Printable(c.KeyFile))
	}
}

// Events returns the record with the recovery key: nothing else shows it to a script.
func (c *Created) Events() []any {
	shown := *c
	shown.Place, _ = event.Escape(c.Place)
	return []any{event.Of("initialized", &shown)}
}

// RecoveryBlock sets a recovery key off from everything around it.
func RecoveryBlock(key string) string {
	rule := strings.Repeat("=", 72)
	return fmt.Sprintf(`
%s
 RECOVERY KEY, shown only once:

     %s

 It opens the repository on any machine, like a passphrase. Write it down
 or print it, and store it away from this computer: without a key the
 backups cannot be read, and no new key can be made.
%s

`, rule, key, rule)
}

// Recovery is a recovery key of the repository with this ID that took the place of earlier ones.
func Recovery(id, key string) Record {
	fields := struct {
		ID  string `json:"repository_id"`
		Key string `json:"recovery_key"`
	}{id, key}
	return one("recovery_key", &fields, func(w *show.Page) {
		fmt.Fprintln(w, "new recovery key created; earlier recovery keys no longer open the repository")
	})
}

// Confirmed is a recovery key whose owner proved to have it, of the repository with this ID.
func Confirmed(id string) Record {
	return one("recovery_confirmed", map[string]string{"repository_id": id}, func(w *show.Page) {
		fmt.Fprintln(w, "recovery key confirmed")
	})
}
