package testkit

import (
	"flag"
	"strconv"
	"testing"
)

// RunTogether is m.Run for a TestMain of tests that mostly wait, for servers, outages or sleeps: it runs up to n
// parallel tests at a time, where Go runs as many as there are processors. The flag -parallel overrides it.
func RunTogether(m *testing.M, n int) (code int) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
	return m.Run()
}
