package output

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/report/event"
	"github.com/tidemark-backup/tidemark/internal/report/show"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

func TestReread(t *testing.T) {
	again := &backup.Reread{
		Files: 3, Bytes: 5000, Seconds: 2, Differing: []event.Path{event.NewPath("/home/x\n")},
		Unreadable: []string{"bad sector"}, Old: format.ID{1}, Protected: format.ID{2},
	}
	r := Reread(again)
	var b show.Page
	r.Text(&b)
	require.Contains(t, b.String(), "reread 3 unchanged files")
	require.Contains(t, b.String(), "warning: cannot reread an unchanged file: bad sector\n")
	require.Contains(t, b.String(), `warning: /home/x\x0a differs from snapshot 01000000`)
	require.Contains(t, b.String(), "'tidemark forget 02000000'")
	line, err := json.Marshal(r.Events()[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"message_type":"reread","files":3,"bytes":5000,"seconds":2,"unreadable":["bad sector"],
		"differing":[{"path":"/home/x\n"}],"old_snapshot":"`+again.Old.String()+
		`","protected_snapshot":"`+again.Protected.String()+`"}`,
		string(line))
}
