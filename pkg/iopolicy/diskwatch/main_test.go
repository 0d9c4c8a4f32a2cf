package diskwatch_test

import (
	"os"
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestMain(m *testing.M) {
	testkit.WatchGates()
	os.Exit(m.Run())
}
