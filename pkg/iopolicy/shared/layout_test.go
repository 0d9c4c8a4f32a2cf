//go:build linux || darwin

package shared

import (
	"fmt"
	"math/rand/v2"
	"unsafe"
)

// layout returns offset, size and first word of the rows of the two tables, as the compiler has them.
func layout(r *region, p *slot) []string {
	row := func(at, size uintptr, word string) string { return fmt.Sprintf("%d %d %s", at, size, word) }
	each := func(at uintptr, n int, size uintptr, word string) string {
		return fmt.Sprintf("%d %d×%d %s", at, n, size, word)
	}
	return []string{
		each(unsafe.Offsetof(r.edge), len(r.edge), unsafe.Sizeof(r.edge[0]), "edge"),
		row(unsafe.Offsetof(r.turn), unsafe.Sizeof(r.turn), "turn"),
		each(unsafe.Offsetof(r.start), len(r.start), unsafe.Sizeof(r.start[0]), "start"),
		each(unsafe.Offsetof(r.want), len(r.want), unsafe.Sizeof(r.want[0]), "want"),
		row(unsafe.Offsetof(r.used), unsafe.Sizeof(r.used), "used"),
		each(unsafe.Offsetof(r.slots), len(r.slots), unsafe.Sizeof(r.slots[0]), "slots,"),
		row(unsafe.Offsetof(p.generation), unsafe.Sizeof(p.generation), "generation"),
		row(unsafe.Offsetof(p.pid), unsafe.Sizeof(p.pid), "process"),
		row(unsafe.Offsetof(p.started), unsafe.Sizeof(p.started), "when"),
		row(unsafe.Offsetof(p.kind), unsafe.Sizeof(p.kind), "kind"),
		row(unsafe.Offsetof(p.read), unsafe.Sizeof(p.read), "bytes"),
		row(unsafe.Offsetof(p.written), unsafe.Sizeof(p.written), "bytes"),
		each(unsafe.Offsetof(p.inflight), len(p.inflight), unsafe.Sizeof(p.inflight[0]), "I/O"),
	}
}

func rng(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 7)) }
