package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"fmt"

	"github.com/tidemark-backup/tidemark/internal/cli"
)

func main() {
	if p := os.Getenv("MEMPROF"); p != "" {
		runtime.MemProfileRate = 64
	}
	if p := os.Getenv("CPUPROF"); p != "" {
		f, _ := os.Create(p)
		runtime.SetCPUProfileRate(2000)
		pprof.StartCPUProfile(f)
	}
	code := cli.Main()
	pprof.StopCPUProfile()
	if p := os.Getenv("MEMPROF"); p != "" {
		f, _ := os.Create(p)
		pprof.Lookup("allocs").WriteTo(f, 0)
	}
	if os.Getenv("MSTAT") != "" {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("mallocs", m.Mallocs, "bytes", m.TotalAlloc, "gc", m.NumGC)
	}
	os.Exit(code)
}
