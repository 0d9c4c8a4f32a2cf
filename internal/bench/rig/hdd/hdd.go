// Package hdd emulates a disk with a moving arm: a file, served by FUSE, whose requests take as long as such a disk
// would need for them, one at a time and in their order.
package hdd

import (
	"math"
	"math/rand/v2"
	"time"
)

// Model defines how long requests take.
type Model struct {
	Size         int64         // of the disk
	TrackToTrack time.Duration // the shortest seek
	FullStroke   time.Duration // the longest
	Revolution   time.Duration
	Rate         float64 // bytes per second under the head
}

// Usual is a disk of 7200 revolutions per minute.
func Usual(size int64) Model {
	return Model{
		Size: size, TrackToTrack: 2 * time.Millisecond, FullStroke: 15 * time.Millisecond,
		Revolution: 8333 * time.Microsecond, Rate: 120e6,
	}
}

// arm is the state of a disk.
type arm struct {
	Model
	random *rand.Rand
	at     int64     // the end of the last request
	free   time.Time // when the last request was done
}

func newArm(m Model) *arm { return &arm{Model: m, random: rand.New(rand.NewPCG(7200, 1)), at: -1} }

// settled is how long after the end of a request the next one counts as queued behind it: it then begins at that end,
// so that the time of the emulation itself is not added to every request.
const settled = time.Millisecond

// serve returns the completion time of a request that arrives now. A request that begins where the last one ended needs
// no seek; others need one by the square root of the distance, and a part of a revolution.
func (a *arm) serve(now time.Time, offset int64, length int) time.Time {
	if now.Sub(a.free) < settled {
		now = a.free
	}
	took := time.Duration(float64(length) / a.Rate * float64(time.Second))
	if offset != a.at {
		took += a.seek(offset-a.at) + time.Duration(a.random.Int64N(int64(a.Revolution)))
	}
	a.at, a.free = offset+int64(length), now.Add(took)
	return a.free
}

func (a *arm) seek(distance int64) time.Duration {
	part := math.Sqrt(min(1, math.Abs(float64(distance))/float64(a.Size)))
	return a.TrackToTrack + time.Duration(part*float64(a.FullStroke-a.TrackToTrack))
}
