package share

import (
	"os"
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.RunTogether(m, 12)) }
