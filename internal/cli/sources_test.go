package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-backup/tidemark/internal/backup"
	"github.com/tidemark-backup/tidemark/internal/localfs"
	"github.com/tidemark-backup/tidemark/internal/scope"
)

// TestRequiredMounts: a source at or below a required mount point is absent unless something is mounted there, also
// where the folder exists and is reached by a link.
func TestRequiredMounts(t *testing.T) {
	t.Parallel()
	dir := scope.Resolve(t.TempDir())
	sources := []string{dir + "/disk", dir + "/disk/photos", dir + "/diskette", "/home"}
	for _, c := range []struct {
		name     string
		required []string
		mounts   []localfs.Mount
		absent   []string
	}{
		{"nothing is required", nil, nil, nil},
		{"mounted", []string{dir + "/disk"}, []localfs.Mount{{Path: "/"}, {Path: dir + "/disk", Type: "ext4"}}, nil},
		{"not mounted", []string{dir + "/disk/"}, []localfs.Mount{{Path: "/"}, {Path: dir}}, sources[:2]},
		{"an automounter without a disk", []string{dir + "/disk"}, []localfs.Mount{{Path: dir + "/disk", Type: "autofs"}},
			sources[:2]},
		{"one of two", []string{dir + "/disk", "/home"}, []localfs.Mount{{Path: dir + "/disk", Type: "ext4"}}, sources[3:]},
		{"of other sources", []string{"/srv"}, nil, nil},
	} {
		absent, err := notMounted(c.required, sources, func() ([]localfs.Mount, error) { return c.mounts, nil })
		require.NoError(t, err, c.name)
		require.Len(t, absent, len(c.absent), c.name)
		for _, source := range c.absent {
			require.ErrorContains(t, absent[source], " is not mounted", c.name)
		}
	}
	_, err := notMounted([]string{"disk"}, sources, localfs.Mounts)
	require.ErrorContains(t, err, "write an absolute path")
}

// A job records what was asked for where the machine finds its sources.
func TestJobOfADomain(t *testing.T) {
	for domain, want := range map[string][]string{"ALL-LOCAL -/proc": {"ALL-LOCAL", "-/proc"}, t.TempDir(): nil} {
		a, _ := appWith(t, map[string]string{"TIDEMARK_DOMAIN": domain})
		job := &backup.Job{}
		given := a.spec
		spec, err := a.fromPaths(&backupFlags{}, nil, job)
		require.NoError(t, err)
		require.Same(t, given, a.spec, "the options of the run stay")
		require.NotSame(t, given, spec, "those of the job have the rules of DOMAIN")
		require.NotEmpty(t, job.Label.Sources)
		require.Equal(t, want, job.Label.Domain)
	}
}
