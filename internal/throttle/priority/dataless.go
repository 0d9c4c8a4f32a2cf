package priority

import (
	"errors"

	"golang.org/x/sys/unix"
)

// The arguments of the system call behind setiopolicy_np(3) of macOS: numbers of sys/resource.h and
// sys/resource_private.h.
const (
	iopolSet          = 2 // IOPOL_CMD_SET
	iopolTypeDataless = 3 // IOPOL_TYPE_VFS_MATERIALIZE_DATALESS_FILES
	iopolScopeProcess = 0 // IOPOL_SCOPE_PROCESS
	iopolDatalessOff  = 1 // IOPOL_MATERIALIZE_DATALESS_FILES_OFF
)

// iopolParam is struct _iopol_param_t of sys/resource_private.h.
type iopolParam struct{ scope, kind, policy int32 }

// fetchNothing has the kernel refuse what would fetch the content of a dataless object, with EDEADLK. A kernel without
// that policy (EINVAL) has no dataless objects.
func fetchNothing(iopolicysys func(command uintptr, param *iopolParam) error) error {
	err := iopolicysys(iopolSet, &iopolParam{iopolScopeProcess, iopolTypeDataless, iopolDatalessOff})
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}
