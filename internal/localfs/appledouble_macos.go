package localfs

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// Volume attributes of getattrlist(2), of sys/attr.h. ATTR_VOL_CAPABILITIES is capabilities u32 x 4 | valid u32 x 4.
const (
	macVolumeInfo         = 0x80000000 // ATTR_VOL_INFO
	macVolumeCapabilities = 0x00020000 // ATTR_VOL_CAPABILITIES
	macInterfaces         = 1          // VOL_CAPABILITIES_INTERFACES: index in both
	macNativeXattrs       = 0x00004000 // VOL_CAP_INT_EXTENDED_ATTR
)

// macVolumeSize is the size of the result of getattrlist for these, in bytes: its length and the capabilities.
const macVolumeSize = 4 + 2*4*4

// refusesXattrs reports whether an object has no attributes because macOS keeps those of another file in it. Where a
// file system has no extended attributes, those of a file x are in the AppleDouble file ._x, and calls for attributes
// of a regular file of such a name are EPERM (open_xattrfile of vfs_xattr.c). EPERM for any other reason is an error.
// volume gets volume attributes.
func refusesXattrs(err error, name string, volume func(attrs uint32, buf []byte) error) bool {
	if !errors.Is(err, unix.EPERM) || len(name) < len("._x") || !strings.HasPrefix(name, "._") {
		return false
	}
	buf := make([]byte, macVolumeSize)
	if volume(macVolumeInfo|macVolumeCapabilities, buf) != nil {
		return false
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(buf[4*i:]) }
	return word(0) >= macVolumeSize && word(1+macInterfaces)&word(5+macInterfaces)&macNativeXattrs == 0
}
