// Package crash kills backups and restores, lets their targets fail, and tests the result.
package crash

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
