package check

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	blobindex "github.com/tidemark-backup/tidemark/internal/repo/index"
	"github.com/tidemark-backup/tidemark/internal/report"
	"github.com/tidemark-backup/tidemark/pkg/format"
)

var errTest = errors.New("broken")

func newRecorder() *findings {
	return newFindings(report.NewJob(report.Check, func() time.Time { return time.Unix(1, 0) }))
}

func number(n int) format.ID { return format.ID{byte(n >> 8), byte(n), 1} }

func TestMemoryIsBounded(t *testing.T) {
	b := newRecorder()
	for n := range 3 * MaxProblems {
		b.LosePack(number(n), 0, errTest)
		b.LoseFrame(number(n), 48, errTest)
		b.LoseBlob(Blob, number(n), errTest)
	}
	res := b.Result()
	require.Len(t, res.Problems, MaxProblems)
	require.NotZero(t, res.More)
	require.False(t, res.OK())
	require.LessOrEqual(t, len(b.packs)+len(b.frames)+len(b.blobs), 2*MaxProblems)
	require.LessOrEqual(t, len(b.known), MaxProblems)

	p := b.Why(number(0), frameAt(number(0), 48, 10))
	require.NotNil(t, p)
	for n := range 2 * maxHashes {
		b.need1(p, n)
	}
	require.Len(t, p.Paths, MaxPaths)
	require.EqualValues(t, maxHashes-MaxPaths, p.More)
}

func (b *findings) need1(p *Problem, n int) { b.Need(p, "aabbccdd", fmt.Sprint("/", n)) }

func frameAt(id format.ID, offset, sealed uint32) blobindex.Found {
	return blobindex.Found{Loc: blobindex.Loc{Offset: offset, Sealed: sealed}, Pack: &blobindex.PackInfo{ID: id}}
}

func TestWhy(t *testing.T) {
	b := newRecorder()
	require.False(t, b.AnyLost())
	cut, torn, other := number(1), number(2), number(3)
	b.LosePack(cut, 1000, errTest)
	b.LoseFrame(torn, 48, errTest)
	b.LoseBlobOf(torn, number(9), errTest)
	require.True(t, b.AnyLost())
	require.Nil(t, b.Why(other, frameAt(cut, 900, 100)), "it ends where the pack was cut")
	require.NotNil(t, b.Why(other, frameAt(cut, 901, 100)))
	require.NotNil(t, b.Why(other, frameAt(torn, 48, 100)))
	require.Nil(t, b.Why(other, frameAt(torn, 148, 100)))
	require.NotNil(t, b.Why(number(9), frameAt(torn, 148, 100)))
	require.Nil(t, b.Why(other, blobindex.Found{}))
	res := b.Result()
	require.Len(t, res.Problems, 2)
	require.ErrorIs(t, res.Problems[1].Err, errTest)
	require.ErrorContains(t, res.Problems[1].Err, "1 more")
}

func TestManyWorkers(t *testing.T) {
	b := newRecorder()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 100 {
				b.LoseBlob(Tree, number(n), errTest)
				b.Need(b.Why(number(n), blobindex.Found{}), fmt.Sprint("snapshot", w), "/x")
				b.Expect(1, 10)
				b.Whole()
				b.Read(5)
			}
		})
	}
	wg.Wait()
	res := b.Result()
	require.Len(t, res.Problems, 100)
	for _, p := range res.Problems {
		require.Len(t, p.Snapshots, 4)
		require.Equal(t, []string{"/x"}, p.Paths)
		require.NotEmpty(t, p.Advice)
	}
	require.EqualValues(t, 2000, res.BytesRead)
	totals := b.l.Snapshot()
	require.EqualValues(t, 400, totals.Expected.Objects)
	require.EqualValues(t, 400, totals.Objects.Verified)
	require.EqualValues(t, 100, totals.Objects.Damaged)

	b.Withdraw()
	totals = b.l.Snapshot()
	require.Zero(t, totals.Objects.Verified)
	require.Zero(t, totals.Objects.Damaged)
}

// TestWholeNeverWaits: Whole is called for each folder of all snapshots, and must not wait while a rare record is
// written.
func TestWholeNeverWaits(t *testing.T) {
	b := newRecorder()
	b.Count(func(*Result) { b.Whole() })
	require.EqualValues(t, 1, b.l.Snapshot().Objects.Verified)
}

// TestAdviceOnMarks: a prune takes a damaged mark away, and does not touch one that it cannot understand.
func TestAdviceOnMarks(t *testing.T) {
	for err, want := range map[error]string{format.ErrCorrupt: "tidemark prune",
		format.ErrUnsupported: "update this one"} {
		p := Problem{Kind: Mark, Err: fmt.Errorf("mark: %w", err)}
		require.Contains(t, p.advice(), want)
	}
}
