// Package change tests that every change of a source is seen, and that what changes during a backup does no harm.
package change

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
