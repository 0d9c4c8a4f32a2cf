package share

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// together is the default of -parallel. The tests wait for outages to end more than they compute, so the number of
// processors, Go's default, is no measure.
const together = 12

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(together)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
