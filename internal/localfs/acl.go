package localfs

import (
	"encoding/binary"
	"fmt"
)

// macOS hands out an access control list as a kauth_filesec (sys/kauth.h) inside the buffer of getattrlist(2). That
// struct, from its magic to the last entry, is the value kept under aclName: little-endian as on every machine that runs
// macOS. The functions here are pure, so that they are tested everywhere.
//
//	magic u32 | owner 16 | group 16 | entries u32 | flags u32 | entries x (who 16 | flags u32 | rights u32)
const (
	aclName      = "tidemark.acl"
	aclMagic     = 0x012cc16d
	aclCount     = 36 // offset of the number of entries
	aclHead      = 44
	aclEntry     = 24
	aclMaxCount  = 128        // KAUTH_ACL_MAX_ENTRIES
	aclNone      = 0xffffffff // in place of the number of entries: no list at all, in contrast to an empty one
	aclReference = 8          // attrreference_t: offset of the data from itself, length of the data
)

// aclFromAttributes takes the list out of what getattrlist returned for ATTR_CMN_EXTENDED_SECURITY alone: a total length
// and a reference. nil: the object has no list.
func aclFromAttributes(buf []byte) ([]byte, error) {
	const head = 4 + aclReference
	if len(buf) < head {
		return nil, fmt.Errorf("read acl: %d bytes of attributes", len(buf))
	}
	total := uint64(binary.LittleEndian.Uint32(buf))
	off := uint64(binary.LittleEndian.Uint32(buf[4:])) + 4
	size := uint64(binary.LittleEndian.Uint32(buf[8:]))
	if size == 0 {
		return nil, nil
	}
	if total > uint64(len(buf)) || off < head || off > total || size > total-off {
		return nil, fmt.Errorf("read acl: %d bytes at %d of %d", size, off, total)
	}
	return checkACL(buf[off : off+size])
}

// checkACL cuts value to the list it holds; nil when it says that there is none.
func checkACL(value []byte) ([]byte, error) {
	if len(value) < aclHead || binary.LittleEndian.Uint32(value) != aclMagic {
		return nil, fmt.Errorf("acl of %d bytes: not a file security record", len(value))
	}
	count := binary.LittleEndian.Uint32(value[aclCount:])
	if count == aclNone {
		return nil, nil
	}
	size := aclHead + int(min(count, aclMaxCount+1))*aclEntry
	if count > aclMaxCount || size > len(value) {
		return nil, fmt.Errorf("acl of %d bytes with %d entries", len(value), count)
	}
	return value[:size:size], nil
}

// attributesFromACL is the buffer for setattrlist that sets value, or takes the list away when value is empty.
func attributesFromACL(value []byte) ([]byte, error) {
	if len(value) == 0 {
		value = make([]byte, aclHead)
		binary.LittleEndian.PutUint32(value, aclMagic)
		binary.LittleEndian.PutUint32(value[aclCount:], aclNone)
	} else if list, err := checkACL(value); err != nil || len(list) != len(value) {
		return nil, fmt.Errorf("set acl of %d bytes: %w", len(value), ErrNotKept)
	}
	buf := make([]byte, 0, aclReference+len(value))
	buf = binary.LittleEndian.AppendUint32(buf, aclReference)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(value)))
	return append(buf, value...), nil
}
