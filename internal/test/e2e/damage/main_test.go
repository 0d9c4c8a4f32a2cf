// Package damage damages repositories and caches, and tests that it is found, survived or repaired.
package damage

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
