package output

import (
	"fmt"
	"io"
	"strings"

	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/human"
)

// Created is a new repository.
type Created struct {
	ID          string `json:"id"`                     // 32 digits
	Place       string `json:"repository"`             // location
	RecoveryKey string `json:"recovery_key,omitempty"` // shown only here
	KeyFile     string `json:"-"`                      // of this machine; "" for none
}

// Text writes where it is.
func (c *Created) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "repository %s created at %s\n", c.ID[:8], human.Printable(c.Place))
	if err == nil && c.KeyFile != "" {
		_, err = fmt.Fprintf(w, "key file of this machine: %s\n", human.Printable(c.KeyFile))
	}
	return err
}

// Events returns the record with the recovery key: nothing else shows it to a script.
func (c *Created) Events() []any {
	shown := *c
	shown.Place, _ = event.Escape(c.Place)
	return []any{event.Of("initialized", &shown)}
}

// Block sets the recovery key off from everything around it.
func (c *Created) Block() string { return recoveryBlock(c.RecoveryKey) }

func recoveryBlock(key string) string {
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

// Recovery is a recovery key that took the place of earlier ones.
type Recovery struct {
	ID  string `json:"repository_id"`
	Key string `json:"recovery_key"`
}

// Text reports the change.
func (r *Recovery) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, "new recovery key created; earlier recovery keys no longer open the repository")
	return err
}

// Events returns a record with the key.
func (r *Recovery) Events() []any { return []any{event.Of("recovery_key", r)} }

// Block sets the key off.
func (r *Recovery) Block() string { return recoveryBlock(r.Key) }

// Confirmed is a recovery key whose owner proved to have it.
type Confirmed struct {
	ID string `json:"repository_id"`
}

// Text reports it.
func (c *Confirmed) Text(w io.Writer) error {
	_, err := fmt.Fprintln(w, "recovery key confirmed")
	return err
}

// Events returns the record.
func (c *Confirmed) Events() []any { return []any{event.Of("recovery_confirmed", c)} }
