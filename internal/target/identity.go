package target

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/device"
	"github.com/tidemark-backup/tidemark/internal/localfs"
)

// Identity tells one mounted file system from another, as far as it stays the same from one run to the next. It is to be
// compared with ==, and may be stored as JSON.
type Identity struct {
	FS     string `json:"fs"`               // type
	ID     string `json:"id,omitempty"`     // what the file system is called by statfs
	Source string `json:"source,omitempty"` // of a share: what is mounted
	// Device is the device number. It is kept only where there is nothing better: it may change whenever the machine starts.
	Device string `json:"device,omitempty"`
	// ReadOnly is a part of it because what cannot be written to cannot be probed.
	ReadOnly bool `json:"read_only,omitempty"`
}

// IdentityOf looks at what is mounted where path lies, which need not exist yet.
func IdentityOf(dir *localfs.Dir, info device.Info) (Identity, error) {
	fs, err := dir.FS()
	if err != nil {
		return Identity{}, fmt.Errorf("identify target: %w", err)
	}
	id := Identity{FS: fs.Type, Source: info.Source, ReadOnly: fs.ReadOnly}
	if fs.ID != 0 {
		id.ID = fmt.Sprintf("%016x", fs.ID)
	}
	if id.ID == "" && id.Source == "" {
		st, err := dir.Fstat()
		if err != nil {
			return Identity{}, fmt.Errorf("identify target: %w", err)
		}
		id.Device = fmt.Sprintf("%d:%d", st.Dev>>32, st.Dev&0xffffffff)
	}
	return id, nil
}
