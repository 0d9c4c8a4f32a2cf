package device

import (
	"context"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// Probe learns nothing on macOS, which does not tell whether a read reached the disk: it returns ErrNoSample.
func Probe(context.Context, *iopolicy.Pass, *localfs.Dir, *Judge) error {
	return fmt.Errorf("%w: macOS does not tell which reads reached the disk", ErrNoSample)
}
