package browse

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The extended attributes in which Linux keeps ACLs, and the records in which star, GNU tar and libarchive keep them.
const (
	accessACL, defaultACL             = "system.posix_acl_access", "system.posix_acl_default"
	accessACLRecord, defaultACLRecord = "SCHILY.acl.access", "SCHILY.acl.default"
)

// Tags of linux/posix_acl_xattr.h. The attribute is a version and entries of a tag, permissions and an ID,
// little-endian.
const (
	aclVersion  = 2
	aclEntry    = 8
	aclOwner    = 0x01
	aclUser     = 0x02
	aclOwnGroup = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20
)

// aclText returns an ACL in the text form of archives, "user::rw-,user:1000:r--,...". Users and groups are numbers, as
// a reader without a name would reject the whole list. It returns false if the attribute is not such a list.
func aclText(value []byte) (string, bool) {
	if len(value) < 4+aclEntry || (len(value)-4)%aclEntry != 0 || binary.LittleEndian.Uint32(value) != aclVersion {
		return "", false
	}
	var b strings.Builder
	for e := value[4:]; len(e) > 0; e = e[aclEntry:] {
		tag, rights, id := binary.LittleEndian.Uint16(e), binary.LittleEndian.Uint16(e[2:]), binary.LittleEndian.Uint32(e[4:])
		who := ""
		switch tag {
		case aclOwner:
			who = "user:"
		case aclUser:
			who = fmt.Sprint("user:", id)
		case aclOwnGroup:
			who = "group:"
		case aclGroup:
			who = fmt.Sprint("group:", id)
		case aclMask:
			who = "mask:"
		case aclOther:
			who = "other:"
		default:
			return "", false
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(who + ":")
		for i, c := range []byte("rwx") {
			if rights&(4>>i) == 0 {
				c = '-'
			}
			b.WriteByte(c)
		}
	}
	return b.String(), true
}

// record returns the name and value of the record for an extended attribute.
func record(name string, value []byte) (string, string) {
	for attr, key := range map[string]string{accessACL: accessACLRecord, defaultACL: defaultACLRecord} {
		if name != attr {
			continue
		}
		if text, ok := aclText(value); ok {
			return key, text
		}
	}
	return xattrRecord + name, string(value)
}
