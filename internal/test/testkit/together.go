package testkit

import (
	"flag"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
)

// CollectLess lets the heap grow to five times what is in use before the garbage collector runs, unless GOGC says
// otherwise. Tests allocate much and keep little: with Go's own setting, which is twice, the collector takes a third of
// the processor time of a test of the engine.
func CollectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Together runs up to n parallel tests at a time, where Go runs as many as there are processors: for tests that wait,
// for servers, outages or sleeps. The flag -parallel overrides it. A TestMain calls it before m.Run.
func Together(n int) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// RunTogether is m.Run with [CollectLess] and [Together].
func RunTogether(m *testing.M, n int) (code int) {
	CollectLess()
	Together(n)
	return m.Run()
}
