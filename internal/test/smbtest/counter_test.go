package smbtest

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// frame is one of connection 0.
func frame(toServer bool, command uint16, number uint64, status uint32, size int) *Frame {
	data := make([]byte, 64+size)
	data[0] = 0xfe
	binary.LittleEndian.PutUint32(data[8:], status)
	binary.LittleEndian.PutUint16(data[12:], command)
	binary.LittleEndian.PutUint64(data[24:], number)
	return &Frame{ToServer: toServer, Data: data}
}

// TestCounter: requests sent at once count as one round trip, a request after an answer counts as another, and an
// interim answer does not count.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 10 * time.Millisecond
		c := &Counter{oneWay: trip / 2, sent: map[[2]uint64]int{}}
		ask := func(command uint16, number uint64, size int) { c.look(frame(true, command, number, 0, size)) }
		answer := func(command uint16, number uint64, status uint32) { c.look(frame(false, command, number, status, 8)) }
		ask(Create, 1, 8)
		answer(Create, 1, 0)
		ask(Create, 2, 8) // before the answer has arrived
		require.Equal(t, 0, c.RoundTrips())
		time.Sleep(trip / 2)
		require.Equal(t, 1, c.RoundTrips())
		ask(Write, 3, 100)
		ask(Write, 4, 100)
		answer(Create, 2, 0)
		time.Sleep(trip)
		answer(Write, 3, pending)
		answer(Write, 4, 0)
		time.Sleep(trip)
		require.Equal(t, 2, c.RoundTrips())
		answer(Write, 3, 0)
		answer(Write, 9, 0) // an answer without a request
		ask(Flush, 5, 8)
		require.Equal(t, 5, c.Requests())
		require.Equal(t, map[string]int{"create": 2, "write": 2, "flush": 1}, c.Each())
		answer(Flush, 5, 0)
		c.Settle()
		require.Equal(t, 3, c.RoundTrips())
	})
}
