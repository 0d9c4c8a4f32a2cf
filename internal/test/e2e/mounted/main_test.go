// Package mounted tests what programs see of mounted snapshots.
package mounted

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
