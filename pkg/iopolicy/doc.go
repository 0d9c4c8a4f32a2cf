// Package iopolicy delays the I/O of background jobs while more important I/O uses the same device: a tiered I/O policy
// in user space, with the windows and periods of the macOS kernel.
//
// # Quick start
//
//	watcher, err := diskwatch.Watch("/srv/data") // sees other programs on that disk; Linux
//	if err != nil {
//		return err
//	}
//	defer watcher.Close()
//	disk := iopolicy.New(iopolicy.Config{
//		Name: "data", Medium: iopolicy.SSD, Settings: iopolicy.DefaultSettings(),
//		Watcher: watcher, Metering: iopolicy.Metering{Meter: diskwatch.Meter()},
//	})
//	backup := disk.Pass(iopolicy.NewClient(iopolicy.Throttle))
//	source := iopolicy.NewFile(ctx, file, backup) // reads wait while others use the disk
//	_, err = io.Copy(target, source)
//
// A program makes one [Gate] for each device, one [Client] for each job, and a [Pass] for each job at each gate. Begin
// waits until an operation may start and returns the largest size it may have; End records its end. [Reader], [Writer]
// and [File] do both.
//
// # Interfaces
//
// A [Watcher] reports I/O of other programs on the device, a [Meter] what the calling thread submitted, and [Peers] the
// gates of other processes. Package diskwatch implements the first two for Linux, package shared the third. A Watcher
// may also implement [GapRequester], and Peers may also implement [SlotLedger].
//
// # Stability
//
// Exported names, the behaviour described here and DefaultSettings remain compatible within a major version. Interfaces
// that callers implement get new methods only as separate optional interfaces. The exact schedule under
// Settings.MaxImpact > 0, the fields of [Stats] and the fast path may change.
//
// # Rules
//
// The rules and numbers are those of xnu-11417 (bsd/miscfs/specfs/spec_vnops.c):
//
//   - A policy has a tier: important 0, standard 1, utility 2, throttle 3. Only strictly better tiers delay a tier.
//     Passive is tier 0 and delays no other tier. While the user is away, tier 3 counts as tier 2.
//   - I/O of a tier opens the tier's window when it begins and when it ends; the window is also open while it is in
//     flight. How long a window stays open depends on the observing tier: 25 ms for tier 1, 100 ms for tier 2, 500 ms
//     for tier 3.
//   - While no window of a better tier is open, a tier is disengaged: every operation starts at once, at any size.
//   - In a window, if no I/O was charged in the present period, a tier is engaged: an operation of at most 128 KiB may
//     start at once. Several may, until one of them is charged.
//   - In a window, if an I/O was charged in the present period, the state is now: the operation sleeps, in order of
//     arrival within its tier. For the first sleeper of a tier, the period counts from the issue of the tier's last
//     charged I/O: 40, 85 and 200 ms for tiers 1 to 3 on a rotational disk, 5, 15 and 25 ms on solid state.
//   - When the period of a tier with sleepers is over, a slot is granted, to the tiers in the order 3, 2, 1, 3. The
//     first sleeper of the tier starts, a new period begins, and the periods of this tier and of all better ones count
//     from now. Slot grants are at least the period of tier 1 apart, counted from the last grant and from the beginning
//     of tier 1's period.
//   - A slot that is not used within a millisecond, because a cache answered the operation, passes on to the next
//     sleeper of the tier in the same period. In the kernel, an operation that needs no device never sleeps.
//   - A slot grant also wakes all sleepers whose windows have closed, and they do not wake sooner. So a tier is at full
//     speed again within its window and one period of the last better I/O. Better I/O during a sleep does not prolong
//     it: one I/O in each period always starts.
//   - A change of policy re-evaluates the sleepers of that client at once. Those that must continue to sleep do so
//     ahead of the others of their new tier.
//
// The kernel starts an operation and lets its thread sleep afterwards, when it holds no locks. Here the sleep precedes
// the operation, so that no thread sleeps with a result that others wait for. Consequences:
//
//   - An operation is charged when it ends, if it reached the device, but to the period and moment of its issue. A
//     Certain operation is charged at issue. What a cache answered is free: it uses no slot and opens no window. See
//     [Grant.End].
//   - Calls that a cache answers may share an operation outside windows: see [Series]. If one of them reaches the
//     device after all, they are charged as one.
//   - A sleeper whose time has come starts at once; the kernel's timer takes a millisecond at least.
//   - While all clients of a gate are of tier 0, their operations read no clock. A client of a worse tier that joins
//     sees what is in flight, and everything that begins from then on.
//
// With Settings.MaxImpact above 0 a slot grant is not one I/O but an amount of device time; see [Impact].
//
// # I/O of others
//
// The gate polls its [Watcher] at the boundaries of own operations, never by a timer: at the first use by a client that
// may have to wait, then at Begin and End once the watcher's interval has passed. It does not wait a window's length at
// the start to observe the device, which would delay every short job by half a second.
//
// While an operation sleeps and none is in flight, there is a gap: everything the device does is foreign. The gate
// polls at the beginning of the gap and before a slot grant, and no own operation begins during a poll. Two polls with
// the same number of operations begun and none in flight enclose a gap exactly.
//
// Peers are other processes with gates for the same device. Their windows count like own ones; a slot in a window is
// reserved from them.
//
// # Costs
//
// Begin and End of a disengaged operation take no lock and allocate nothing: two readings of the clock and some atomic
// counters; tier 0 alone does not read the clock. The sleepers of a gate share one timer.
package iopolicy
