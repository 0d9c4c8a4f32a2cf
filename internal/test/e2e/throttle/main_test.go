// Package throttle tests that every byte of a job passes its gates, and that shut gates stop it.
package throttle

import (
	"testing"

	"github.com/tidemark-backup/tidemark/internal/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m) }
