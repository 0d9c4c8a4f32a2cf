package localfs

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An AppleDouble file has no attributes, which is no failure of the backup. Any other refusal is one, since attributes
// could be lost.
func TestAppleDoubleFilesHaveNoAttributes(t *testing.T) {
	volume := func(capable, valid uint32, err error) func(uint32, []byte) error {
		return func(attrs uint32, buf []byte) error {
			require.EqualValues(t, 0x80020000, attrs)
			require.Len(t, buf, 36)
			binary.LittleEndian.PutUint32(buf, 36)
			binary.LittleEndian.PutUint32(buf[8:], capable)
			binary.LittleEndian.PutUint32(buf[24:], valid)
			return err
		}
	}
	const native = 0x4000
	for name, c := range map[string]struct {
		err    error
		file   string
		volume func(uint32, []byte) error
		want   bool
	}{
		"exFAT":                  {unix.EPERM, "._x", volume(0, 0, nil), true},
		"other capabilities":     {unix.EPERM, "._a b", volume(^uint32(native), ^uint32(0), nil), true},
		"not valid":              {unix.EPERM, "._x", volume(native, 0, nil), true},
		"APFS":                   {unix.EPERM, "._x", volume(native, native, nil), false},
		"refused by the sandbox": {unix.EPERM, "x", volume(0, 0, nil), false},
		"name alone":             {unix.EPERM, "._", volume(0, 0, nil), false},
		"dot":                    {unix.EPERM, ".x_", volume(0, 0, nil), false},
		"EACCES":                 {unix.EACCES, "._x", volume(0, 0, nil), false},
		"EIO":                    {unix.EIO, "._x", volume(0, 0, nil), false},
		"unknown volume":         {unix.EPERM, "._x", volume(0, 0, unix.EINVAL), false},
		"short answer":           {unix.EPERM, "._x", func(uint32, []byte) error { return nil }, false},
	} {
		require.Equal(t, c.want, refusesXattrs(c.err, c.file, c.volume), name)
	}
}
