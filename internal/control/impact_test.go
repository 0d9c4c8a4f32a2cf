package control

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// gated is a job whose I/O passes gates.
type gated struct {
	job
	part float64
}

func (g *gated) SetMaxImpact(part float64) { g.part = part }

func TestImpactIsChangedWhileAJobRuns(t *testing.T) {
	dir := place(t)
	j := &gated{part: 0.05}
	defer begin(t, dir, j, usualLimits())()
	jobs, err := Jobs(dir)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	c, err := jobs[0].SetMaxImpact(t.Context(), 20)
	require.NoError(t, err)
	require.InDelta(t, 0.2, j.part, 1e-9)
	require.Equal(t, c.Was, c.Policy)
	require.Equal(t, []string{"Others may lose 20 % of their speed."}, c.Notes)
	_, err = jobs[0].SetMaxImpact(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, j.part)
	_, err = jobs[0].SetMaxImpact(t.Context(), 101)
	require.ErrorIs(t, err, ErrRefused)
	require.Zero(t, j.part)
}

func TestImpactOfAProgramWithoutGatesIsRefused(t *testing.T) {
	dir := place(t)
	defer begin(t, dir, &job{}, usualLimits())()
	jobs, err := Jobs(dir)
	require.NoError(t, err)
	_, err = jobs[0].SetMaxImpact(t.Context(), 20)
	require.ErrorIs(t, err, ErrRefused)
}
