package priority

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The request has the layout and the numbers of Apple's headers, and a kernel that does not know the policy is no
// failure.
func TestTheKernelIsAskedToFetchNothing(t *testing.T) {
	require.EqualValues(t, 12, unsafe.Sizeof(iopolParam{}))
	require.EqualValues(t, 4, unsafe.Offsetof(iopolParam{}.kind))
	require.EqualValues(t, 8, unsafe.Offsetof(iopolParam{}.policy))
	for answer, want := range map[error]error{nil: nil, unix.EINVAL: nil, unix.EPERM: unix.EPERM} {
		calls := 0
		err := fetchNothing(func(command uintptr, param *iopolParam) error {
			calls++
			require.EqualValues(t, 2, command)
			require.Equal(t, iopolParam{scope: 0, kind: 3, policy: 1}, *param)
			return answer
		})
		require.Equal(t, 1, calls)
		require.Equal(t, want, err)
	}
}
