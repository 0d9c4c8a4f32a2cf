package output

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func TestReread(t *testing.T) {
	r := &Reread{Reread: &backup.Reread{
		Files: 3, Bytes: 5000, Took: 2 * time.Second, Differing: []string{"home/x\n"},
		Unreadable: []error{errors.New("bad sector")},
		Protected:  format.ID{2},
	}, Old: format.ID{1}}
	var b strings.Builder
	require.NoError(t, r.Text(&b))
	require.Contains(t, b.String(), "reread 3 unchanged files")
	require.Contains(t, b.String(), "warning: cannot reread an unchanged file: bad sector\n")
	require.Contains(t, b.String(), `warning: /home/x\x0a differs from snapshot 01000000`)
	require.Contains(t, b.String(), "'tidemark forget 02000000'")
	line, err := json.Marshal(r.Events()[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"message_type":"reread","files":3,"bytes":5000,"seconds":2,"unreadable":["bad sector"],
		"differing":[{"path":"/home/x\n"}],"old_snapshot":"`+r.Old.String()+
		`","protected_snapshot":"`+r.Protected.String()+`"}`,
		string(line))
}
