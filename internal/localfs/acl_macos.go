package localfs

import (
	"encoding/binary"
	"fmt"
)

// macACLName is the extended attribute in which a snapshot keeps the list.
const macACLName = "tidemark.acl"

// macACLSize is the size of the longest list in the buffer of getattrlist(2), in bytes.
const macACLSize = 4 + macACLReference + macACLHead + macACLMax*macACLEntry

// macOS returns an access control list as a kauth_filesec (sys/kauth.h) in the buffer of getattrlist(2). That struct,
// from its magic to the last entry, is the value of macACLName. It is little-endian, as all machines with macOS are.
//
//	magic u32 | owner 16 | group 16 | entries u32 | flags u32 | entries x (who 16 | flags u32 | rights u32)
const (
	macACLMagic     = 0x012cc16d
	macACLCount     = 36 // offset of the number of entries
	macACLHead      = 44
	macACLEntry     = 24
	macACLMax       = 128        // KAUTH_ACL_MAX_ENTRIES
	macACLNone      = 0xffffffff // number of entries that stands for no list, in contrast to an empty one
	macACLReference = 8          // attrreference_t: offset of the data from itself, length of the data
)

// parseMacACL extracts the list from the result of getattrlist for ATTR_CMN_EXTENDED_SECURITY alone: a total length and
// a reference. nil: the object has no list.
func parseMacACL(buf []byte) ([]byte, error) {
	const least = 4 + macACLReference
	if len(buf) < least {
		return nil, fmt.Errorf("read acl: %d bytes of attributes", len(buf))
	}
	total := uint64(binary.LittleEndian.Uint32(buf))
	off := uint64(binary.LittleEndian.Uint32(buf[4:])) + 4
	size := uint64(binary.LittleEndian.Uint32(buf[8:]))
	if size == 0 {
		return nil, nil
	}
	if total > uint64(len(buf)) || off < least || off > total || size > total-off {
		return nil, fmt.Errorf("read acl: %d bytes at %d of %d", size, off, total)
	}
	return trimMacACL(buf[off : off+size])
}

// trimMacACL cuts value to the list it holds; nil if it holds none.
func trimMacACL(value []byte) ([]byte, error) {
	if len(value) < macACLHead || binary.LittleEndian.Uint32(value) != macACLMagic {
		return nil, fmt.Errorf("acl of %d bytes: not a file security record", len(value))
	}
	count := binary.LittleEndian.Uint32(value[macACLCount:])
	if count == macACLNone {
		return nil, nil
	}
	size := macACLHead + int(min(count, macACLMax+1))*macACLEntry
	if count > macACLMax || size > len(value) {
		return nil, fmt.Errorf("acl of %d bytes with %d entries", len(value), count)
	}
	return value[:size:size], nil
}

// formatMacACL returns the buffer with which setattrlist sets value, or removes the list if value is empty.
func formatMacACL(value []byte) ([]byte, error) {
	if len(value) == 0 {
		value = make([]byte, macACLHead)
		binary.LittleEndian.PutUint32(value, macACLMagic)
		binary.LittleEndian.PutUint32(value[macACLCount:], macACLNone)
	} else if list, err := trimMacACL(value); err != nil || len(list) != len(value) {
		return nil, fmt.Errorf("set acl of %d bytes: %w", len(value), errNotMacACL)
	}
	buf := make([]byte, 0, macACLReference+len(value))
	buf = binary.LittleEndian.AppendUint32(buf, macACLReference)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(value)))
	return append(buf, value...), nil
}
