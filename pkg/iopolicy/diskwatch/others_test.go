package diskwatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// TestReadsAndWritesOfOthersAreCountedApart: what the file system writes for an own write is no read of others.
func TestReadsAndWritesOfOthersAreCountedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, Options{FS: "ext4"}, 1)
		before := s.poll(5 * time.Millisecond).Others
		s.write(iopolicy.Write, 64<<10, 64<<10+16<<10, 1) // with a journal
		s.fake.Counters.Read += 3 << 12
		s.begin(iopolicy.Read)
		s.fake.Process.Read += 1 << 20
		s.fake.Counters.Read += 1 << 20
		s.end(iopolicy.Read)
		after := s.poll(5 * time.Millisecond).Others
		require.Equal(t, iopolicy.Bytes{Read: 3 << 12, Written: 16 << 10},
			iopolicy.Bytes{Read: after.Read - before.Read, Written: after.Written - before.Written})
	})
}
