package target

import (
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/throttle/device"
)

// Identity distinguishes mounted file systems across runs. Compare it with ==; it may be stored as JSON.
type Identity struct {
	FS     string `json:"fs"`               // type
	ID     string `json:"id,omitempty"`     // from statfs
	Source string `json:"source,omitempty"` // what is mounted, on a share
	// Device is the device number, used only without ID and Source: it may change when the machine starts.
	Device string `json:"device,omitempty"`
	// ReadOnly is included because a read-only mount cannot be probed.
	ReadOnly bool `json:"read_only,omitempty"`
}

// IdentityOf identifies the file system of dir.
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
