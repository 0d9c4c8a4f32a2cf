package priority

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// mac is a kernel of macOS with this process, whose number is 7, and another one, 8.
type mac struct {
	nice       map[int]int
	background map[int]bool // set from outside, or by process 7 for itself
	born       map[int]bool // inherited, which others cannot change
	iopol      int32
	root       bool
	refused    map[int]error // by the first argument of setpriority
	set        []int         // processes whose background state was set
}

func newMac() *mac {
	return &mac{nice: map[int]int{7: 0, 8: 0}, background: map[int]bool{}, refused: map[int]error{}}
}

// inBackground is what the kernel makes of the two states.
func (m *mac) inBackground(process int) bool { return m.background[process] || m.born[process] }

func (m *mac) calls() macCalls {
	return macCalls{
		getPriority: func(which, who int) (int, error) {
			if which == macPrioBackground {
				// The kernel answers for the caller, whichever process was named.
				if m.inBackground(7) {
					return 1, nil
				}
				return 0, nil
			}
			nice, ok := m.nice[who]
			if !ok {
				return 0, unix.ESRCH
			}
			return nice, nil
		},
		setPriority: func(which, who, value int) error {
			if err := m.refused[which]; err != nil {
				return err
			}
			if which == macPrioBackground {
				if who == 0 {
					who = 7
				}
				m.background[who] = value == macBackground
				m.set = append(m.set, who)
				return nil
			}
			if value < m.nice[who] && !m.root {
				return unix.EACCES
			}
			m.nice[who] = value
			return nil
		},
		iopolicysys: func(command uintptr, param *iopolParam) error {
			if param.kind != iopolTypeDisk || param.scope != iopolScopeProcess {
				return unix.EINVAL
			}
			if command == iopolGet {
				param.policy = m.iopol
			} else {
				m.iopol = param.policy
			}
			return nil
		},
	}
}

// TestBesideGatesTheKernelNeverBrakes: whatever the policy, no tier of the kernel that sleeps, and no background.
func TestBesideGatesTheKernelNeverBrakes(t *testing.T) {
	m := newMac()
	m.root = true
	p, err := newMacProcess(m.calls(), 7, true, false)
	require.NoError(t, err)
	for _, one := range []struct {
		policy iopolicy.Policy
		now    string
	}{
		{iopolicy.Throttle, "nice 10, I/O policy passive"}, {iopolicy.Utility, "nice 5, I/O policy passive"},
		{iopolicy.Standard, "nice 0, I/O policy passive"}, {iopolicy.Passive, "nice 0, I/O policy passive"},
		{iopolicy.Important, "nice 0"}, {iopolicy.Throttle, "nice 10, I/O policy passive"},
	} {
		out, err := p.Apply(one.policy)
		require.NoError(t, err)
		require.Equal(t, one.now, out.Now, one.policy)
		require.Empty(t, out.Notes)
		require.Zero(t, rank(m.iopol)/2, "tier 0")
	}
	require.Empty(t, m.set, "the background was never touched")
}

func TestThePolicyOfTheKernelIsChosenByName(t *testing.T) {
	m := newMac()
	m.root = true
	p, err := newMacProcess(m.calls(), 7, true, true)
	require.NoError(t, err)
	for _, one := range []struct {
		policy iopolicy.Policy
		now    string
	}{
		{iopolicy.Throttle, "nice 0, background, I/O policy throttle"}, {iopolicy.Utility, "nice 5, I/O policy utility"},
		{iopolicy.Standard, "nice 0, I/O policy standard"}, {iopolicy.Important, "nice 0"},
	} {
		out, err := p.Apply(one.policy)
		require.NoError(t, err)
		require.Equal(t, one.now, out.Now, one.policy)
	}
}

// TestNothingGetsBetterThanItWas: what a person or launchd lowered stays.
func TestNothingGetsBetterThanItWas(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		m := newMac()
		m.nice[7], m.background[7], m.iopol = 15, true, iopolThrottle
		p, err := newMacProcess(m.calls(), 7, true, kernel)
		require.NoError(t, err)
		for _, policy := range iopolicy.Policies() {
			out, err := p.Apply(policy)
			require.NoError(t, err)
			require.Equal(t, "nice 15, background, I/O policy throttle", out.Now)
		}
	}
}

func TestWhatTheKernelRefusesIsNoted(t *testing.T) {
	m := newMac()
	p, err := newMacProcess(m.calls(), 7, true, false)
	require.NoError(t, err)
	_, err = p.Apply(iopolicy.Throttle)
	require.NoError(t, err)
	out, err := p.Apply(iopolicy.Important)
	require.NoError(t, err)
	require.Len(t, out.Notes, 1)
	require.Equal(t, "The CPU priority stays low, at nice 10 instead of 0: only root may raise it again.", out.Notes[0])
	m.refused[macPrioProcess] = unix.EPERM
	m.nice[7] = 0
	out, err = p.Apply(iopolicy.Utility)
	require.NoError(t, err)
	require.Contains(t, out.Notes[0], "did not let the nice value be changed")
}

// TestAnotherProcess: its background state cannot be read, so it is set each time, also after another program changed
// it.
func TestAnotherProcess(t *testing.T) {
	m := newMac()
	p, err := newMacProcess(m.calls(), 8, false, true)
	require.NoError(t, err)
	out, err := p.Apply(iopolicy.Throttle)
	require.NoError(t, err)
	require.Equal(t, "nice 0, background", out.Now)
	require.True(t, m.background[8])
	m.background[8] = false
	_, err = p.Apply(iopolicy.Utility)
	require.NoError(t, err)
	require.True(t, m.background[8])
	out, err = p.Apply(iopolicy.Important)
	require.NoError(t, err)
	require.False(t, m.background[8])
	require.Equal(t, []int{8, 8, 8}, m.set)
	require.Contains(t, out.Notes[0], "does not show")
	require.False(t, m.background[7], "this process is left alone")

	// One that was started in the background stays there, and nothing else is claimed.
	m.born = map[int]bool{8: true}
	out, err = p.Apply(iopolicy.Important)
	require.NoError(t, err)
	require.True(t, m.inBackground(8))
	require.Equal(t, "nice 0", out.Now)
	require.Contains(t, out.Notes[0], "'tidemark run' started there, stays")

	m.refused[macPrioBackground] = unix.EPERM
	_, err = p.Apply(iopolicy.Throttle)
	require.ErrorIs(t, err, ErrNotPermitted)
	_, err = newMacProcess(m.calls(), 9, false, true)
	require.ErrorIs(t, err, ErrNoProcess)
	_, err = newMacProcess(m.calls(), 0, false, true)
	require.ErrorIs(t, err, ErrNoProcess)
}

// TestAnAcceleratedJobOfMacOS: a job of each policy is made important for a time and goes back, twice, as `accelerate`
// asks. The kernel never brakes it, root gets the nice value back at once, and another user reads why not.
func TestAnAcceleratedJobOfMacOS(t *testing.T) {
	for _, root := range []bool{true, false} {
		for policy, nice := range map[iopolicy.Policy]int{iopolicy.Standard: 0, iopolicy.Utility: 5, iopolicy.Throttle: 10} {
			m := newMac()
			m.root = root
			p, err := newMacProcess(m.calls(), 7, true, false)
			require.NoError(t, err)
			for range 2 {
				out, err := p.Apply(policy)
				require.NoError(t, err)
				require.Empty(t, out.Notes)
				require.Equal(t, nice, m.nice[7])
				require.EqualValues(t, iopolPassive, m.iopol)

				out, err = p.Apply(iopolicy.Important)
				require.NoError(t, err)
				require.Zero(t, m.iopol, "as it was found")
				if root || nice == 0 {
					require.Zero(t, m.nice[7])
					require.Empty(t, out.Notes)
				} else {
					require.Equal(t, nice, m.nice[7])
					require.Len(t, out.Notes, 1)
					require.Contains(t, out.Notes[0], "only root may raise it again")
				}
				require.Empty(t, m.set, "the background is left alone")
			}
		}
	}
}
