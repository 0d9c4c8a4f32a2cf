// Package roundtrip tests that what was backed up comes back: every object, and the golden repositories of earlier
// builds.
package roundtrip

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
