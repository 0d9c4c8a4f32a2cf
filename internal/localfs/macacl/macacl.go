// Package macacl turns the access control lists of macOS into extended attributes and back. It has no I/O, and runs and is
// tested everywhere.
package macacl

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrForeign: the value is no access control list of macOS.
var ErrForeign = errors.New("not an access control list of macOS")

// Name is the extended attribute that stands for the list.
const Name = "tidemark.acl"

// Room is what the longest list takes in the buffer of getattrlist(2), in bytes.
const Room = 4 + reference + head + maxCount*entry

// macOS hands out an access control list as a kauth_filesec (sys/kauth.h) inside the buffer of getattrlist(2). That
// struct, from its magic to the last entry, is the value kept under Name: little-endian as on every machine that runs
// macOS.
//
//	magic u32 | owner 16 | group 16 | entries u32 | flags u32 | entries x (who 16 | flags u32 | rights u32)
const (
	magic     = 0x012cc16d
	countAt   = 36 // offset of the number of entries
	head      = 44
	entry     = 24
	maxCount  = 128        // KAUTH_ACL_MAX_ENTRIES
	none      = 0xffffffff // in place of the number of entries: no list at all, in contrast to an empty one
	reference = 8          // attrreference_t: offset of the data from itself, length of the data
)

// FromAttributes takes the list out of what getattrlist returned for ATTR_CMN_EXTENDED_SECURITY alone: a total length
// and a reference. nil: the object has no list.
func FromAttributes(buf []byte) ([]byte, error) {
	const least = 4 + reference
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
	return check(buf[off : off+size])
}

// check cuts value to the list it holds; nil when it says that there is none.
func check(value []byte) ([]byte, error) {
	if len(value) < head || binary.LittleEndian.Uint32(value) != magic {
		return nil, fmt.Errorf("acl of %d bytes: not a file security record", len(value))
	}
	count := binary.LittleEndian.Uint32(value[countAt:])
	if count == none {
		return nil, nil
	}
	size := head + int(min(count, maxCount+1))*entry
	if count > maxCount || size > len(value) {
		return nil, fmt.Errorf("acl of %d bytes with %d entries", len(value), count)
	}
	return value[:size:size], nil
}

// Attributes returns the buffer for setattrlist that sets value, or takes the list away when value is empty.
func Attributes(value []byte) ([]byte, error) {
	if len(value) == 0 {
		value = make([]byte, head)
		binary.LittleEndian.PutUint32(value, magic)
		binary.LittleEndian.PutUint32(value[countAt:], none)
	} else if list, err := check(value); err != nil || len(list) != len(value) {
		return nil, fmt.Errorf("set acl of %d bytes: %w", len(value), ErrForeign)
	}
	buf := make([]byte, 0, reference+len(value))
	buf = binary.LittleEndian.AppendUint32(buf, reference)
	buf = binary.LittleEndian.AppendUint32(buf, uint32(len(value)))
	return append(buf, value...), nil
}
