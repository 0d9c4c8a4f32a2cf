package sharetest

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// together is how many tests run at the same time unless -parallel says otherwise. They wait for outages to end more than
// they compute, so the number of processors, which is what it would be, is no measure.
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
