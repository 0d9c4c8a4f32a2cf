package iopolicy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tidemark-backup/tidemark/pkg/iopolicy"
)

// A copy at tier 3: while a better tier uses the device, it moves one piece of 128 KiB each period.
func Example() {
	disk := iopolicy.New(iopolicy.Config{Name: "sda", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings()})
	backup := disk.Pass(iopolicy.NewClient(iopolicy.Throttle))

	ctx := context.Background()
	var target bytes.Buffer
	source := iopolicy.NewReader(ctx, strings.NewReader(strings.Repeat("tide", 1<<16)), backup)
	n, err := io.Copy(iopolicy.NewWriter(ctx, &target, backup), source)
	fmt.Println(n, err, disk.Stats().State)
	// Output: 262144 <nil> disengaged
}

// Each job has a policy; the worse yields to the better.
func ExampleGate_Pass() {
	ctx := context.Background()
	disk := iopolicy.New(iopolicy.Config{Medium: iopolicy.HDD, Settings: iopolicy.DefaultSettings()})
	restore := disk.Pass(iopolicy.NewClient(iopolicy.Important))
	thumbnails := disk.Pass(iopolicy.NewClient(iopolicy.Utility))
	backup := disk.Pass(iopolicy.NewClient(iopolicy.Throttle))

	reading, err := restore.Begin(ctx, iopolicy.Op{Kind: iopolicy.Read, Certain: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("restore:", restore.Bound())
	fmt.Println("thumbnails:", thumbnails.Bound())
	fmt.Println("backup:", backup.Bound())
	reading.End(1 << 20)
	fmt.Println("windows opened by tier 0:", disk.Stats().Windows[0])
	// Output:
	// restore: 0
	// thumbnails: 131072
	// backup: 131072
	// windows opened by tier 0: 1
}

// A job that sleeps continues at once when it becomes important.
func ExampleClient_SetPolicy() {
	ctx := context.Background()
	settings := iopolicy.DefaultSettings()
	settings.PeriodHDD[3] = time.Minute // longer than an example may take
	disk := iopolicy.New(iopolicy.Config{Settings: settings})
	client := iopolicy.NewClient(iopolicy.Throttle)
	backup := disk.Pass(client)
	read := iopolicy.Op{Kind: iopolicy.Read, Bytes: 4096, Certain: true}
	one := func(int) (int, error) { return 4096, nil }
	if _, err := backup.Do(ctx, read, one); err != nil { // uses up the period
		fmt.Println(err)
	}
	other, err := disk.Pass(iopolicy.NewClient(iopolicy.Important)).Begin(ctx, read)
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() {
		_, err := backup.Do(ctx, read, one)
		done <- err
	}()
	fmt.Println(disk.Stats().State)
	client.SetPolicy(iopolicy.Important)
	fmt.Println(<-done, client.Policy())
	other.End(4096)
	// Output:
	// waiting
	// <nil> important
}
