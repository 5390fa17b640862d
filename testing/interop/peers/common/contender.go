// Package contender is what a Go driver of the contended benchmark shares: arguments, start and
// end, the record. The protocol is described in bench/src/contended/contender.rs.
package contender

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// Arguments are what a driver is started with.
type Arguments struct {
	URL        string
	Name       string
	Contenders int
	Section    time.Duration
	TTL        time.Duration
	Setting    string
	FirstOwner int
}

// Lock is the lock of one contender. Acquire says whether it got it.
type Lock interface {
	Acquire() bool
	Release() bool
}

type grant struct {
	owner                                 int
	called, acquired, releasing, released int64
}

// Read reads the command line.
func Read() Arguments {
	if len(os.Args) != 8 {
		panic("usage: URL NAME CONTENDERS SECTION_US TTL_MS SETTING FIRST_OWNER")
	}
	number := func(index int) int {
		value, err := strconv.Atoi(os.Args[index])
		if err != nil {
			panic(err)
		}
		return value
	}
	return Arguments{
		URL:        os.Args[1],
		Name:       os.Args[2],
		Contenders: number(3),
		Section:    time.Duration(number(4)) * time.Microsecond,
		TTL:        time.Duration(number(5)) * time.Millisecond,
		Setting:    os.Args[6],
		FirstOwner: number(7),
	}
}

// Contend runs a goroutine for each contender and tells what they saw.
func Contend(arguments Arguments, newLock func() Lock) {
	fmt.Println("ready")
	var start, end int64
	if _, err := fmt.Scan(&start, &end); err != nil {
		panic(err)
	}
	grants := make([][]grant, arguments.Contenders)
	failed := make([]int, arguments.Contenders)
	var all sync.WaitGroup
	for index := range arguments.Contenders {
		lock := newLock()
		all.Add(1)
		go func() {
			defer all.Done()
			time.Sleep(time.Duration(start - now()))
			for {
				one := grant{owner: arguments.FirstOwner + index, called: now()}
				if one.called >= end {
					return
				}
				for !lock.Acquire() {
					failed[index]++
				}
				one.acquired = now()
				if arguments.Section > 0 {
					time.Sleep(arguments.Section)
				}
				one.releasing = now()
				if !lock.Release() {
					failed[index]++
				}
				one.released = now()
				grants[index] = append(grants[index], one)
			}
		}()
	}
	all.Wait()
	out := bufio.NewWriter(os.Stdout)
	sum := 0
	for index := range grants {
		for _, one := range grants[index] {
			fmt.Fprintln(out, "grant", one.owner, one.called, one.acquired, one.releasing, one.released)
		}
		sum += failed[index]
	}
	fmt.Fprintln(out, "failed", sum)
	if err := out.Flush(); err != nil {
		panic(err)
	}
}

// now is CLOCK_MONOTONIC in nanoseconds, which the standard library does not show.
func now() int64 {
	const clockMonotonic = 1
	var time syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&time)), 0); errno != 0 {
		panic(errno)
	}
	return time.Nano()
}
