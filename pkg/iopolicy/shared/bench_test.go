//go:build linux || darwin

package shared

import (
	"testing"
	"time"
)

func BenchmarkPublish(b *testing.B) {
	s := attach(b, folder(b), Options{})
	base := time.Now().Add(-time.Hour)
	i := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		s.Publish(3, base.Add(i))
		i++
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	s := attach(b, folder(b), Options{})
	b.ReportAllocs()
	for b.Loop() {
		s.Enter(3)
		s.Leave(3)
	}
}

func BenchmarkSeen(b *testing.B) {
	for name, busy := range map[string]bool{"idle": false, "inflight": true} {
		b.Run(name, func(b *testing.B) {
			dir := folder(b)
			s, other := attach(b, dir, Options{}), attach(b, dir, Options{})
			for tier := range s.inflight {
				other.Publish(3, time.Now())
				if busy && tier < 2 {
					other.Enter(0)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				s.Seen()
			}
		})
	}
}

func BenchmarkClaim(b *testing.B) {
	s := attach(b, folder(b), Options{})
	base := time.Now().Add(-time.Hour)
	b.Run("won", func(b *testing.B) {
		b.ReportAllocs()
		i := time.Duration(1)
		for b.Loop() {
			s.Claim(3, base.Add(i), 1)
			i++
		}
	})
	b.Run("lost", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Claim(3, base, time.Second)
		}
	})
}
