package auto

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/bench/kit"
)

func TestTable(t *testing.T) {
	b := &bench{}
	for round, seconds := range []float64{30, 10, 20} {
		b.records = append(b.records,
			record{Slow: "target", Candidate: "auto", Round: round, Seconds: seconds + 2, Processor: 5, Stored: 3e6},
			record{Slow: "target", Candidate: "level-1", Round: round, Seconds: seconds, Processor: 4, Stored: 4e6},
			record{Slow: "target", Candidate: "level-2", Round: round, Seconds: 2 * seconds, Processor: 5, Stored: 3e6},
			record{Slow: "source-rate", Candidate: "level-2", Round: round, Seconds: 1})
	}
	require.Equal(t, `| | s | of the best fixed | processor, s | stored, MB |
|---|---|---|---|---|
| auto | 22.0 | 1.10 | 5.0 | 3 |
| level-1 | 20.0 | 1.00 | 4.0 | 4 |
| level-2 | 40.0 | 2.00 | 5.0 | 3 |
`, b.table("target"))
	require.Contains(t, (&bench{records: b.records[:1]}).table("target"), "NaN", "nothing to compare with")
}

func TestRead(t *testing.T) {
	var r record
	require.NoError(t, r.read(`{"message_type":"status"}
{"message_type":"summary","data_added_packed":17,"workers":[{"readers":8},{"readers":12}]}
`))
	require.Equal(t, int64(17), r.Stored)
	require.Len(t, r.Workers, 2)
	require.ErrorContains(t, r.read("{\"message_type\":\"status\"}\n"), "without a summary")
	require.ErrorContains(t, r.read(""), "without a summary")
}

func TestWords(t *testing.T) {
	require.NoError(t, kit.Known("-only", kit.Words("target, source-rate"), places()))
	require.ErrorContains(t, kit.Known("-only", kit.Words("target,disk"), places()),
		`-only "disk": there are target, processors-0.4`)
	require.Equal(t, "auto", names()[0])
}
