// Locks of Go libraries, one at a time: see ../PROTOCOL.md.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A lock that a library granted; every answer is a line of the protocol.
type lock interface {
	release() string
	extend(ttl time.Duration) string
	ttl() string
}

// Asks for a lock: nothing and why not, when there is none.
type acquire func(name string, ttl, wait time.Duration) (lock, string)

// Forever: the deadline of a wait is its context.
const manyTries = 1 << 30

func failed(err error) string {
	return "error " + strings.ReplaceAll(err.Error(), "\n", " ")
}

type bsmLock struct{ held *redislock.Lock }

// What the next acquires of redislock have besides: `with TOKEN METADATA`, `-` for none.
var with struct{ token, metadata string }

func bsm(client *redis.Client) acquire {
	locks := redislock.New(client)
	return func(name string, ttl, wait time.Duration) (lock, string) {
		ctx := context.Background()
		options := &redislock.Options{Token: with.token, Metadata: with.metadata}
		if wait > 0 {
			deadline, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			// Its users choose the pause; there is no default but not to wait.
			ctx, options.RetryStrategy = deadline, redislock.LinearBackoff(100*time.Millisecond)
		}
		// Names with commas are several keys.
		held, err := locks.ObtainMulti(ctx, strings.Split(name, ","), ttl, options)
		// A wait that ends in the middle of a question is over, too.
		if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
			return nil, "busy"
		}
		if err != nil {
			return nil, failed(err)
		}
		return bsmLock{held}, "ok " + hex.EncodeToString([]byte(held.Token()))
	}
}

func (l bsmLock) release() string {
	switch err := l.held.Release(context.Background()); {
	case err == nil:
		return "ok"
	case errors.Is(err, redislock.ErrLockNotHeld):
		return "expired"
	default:
		return failed(err)
	}
}

func (l bsmLock) extend(ttl time.Duration) string {
	switch err := l.held.Refresh(context.Background(), ttl, nil); {
	case err == nil:
		return "ok"
	case errors.Is(err, redislock.ErrNotObtained):
		return "expired"
	default:
		return failed(err)
	}
}

func (l bsmLock) ttl() string {
	left, err := l.held.TTL(context.Background())
	switch {
	case err != nil:
		return failed(err)
	case left == 0:
		return "expired"
	default:
		return fmt.Sprintf("ok %d", left.Milliseconds())
	}
}

type redsyncLock struct{ held *redsync.Mutex }

func sync(client *redis.Client) acquire {
	locks := redsync.New(goredis.NewPool(client))
	return func(name string, ttl, wait time.Duration) (lock, string) {
		ctx, tries := context.Background(), 1
		if wait > 0 {
			deadline, cancel := context.WithTimeout(ctx, wait)
			defer cancel()
			ctx, tries = deadline, manyTries
		}
		mutex := locks.NewMutex(name, redsync.WithExpiry(ttl), redsync.WithTries(tries))
		err := mutex.LockContext(ctx)
		var taken *redsync.ErrTaken
		if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) ||
			errors.Is(err, context.DeadlineExceeded) {
			return nil, "busy"
		}
		if err != nil {
			return nil, failed(err)
		}
		return redsyncLock{mutex}, "ok " + hex.EncodeToString([]byte(mutex.Value()))
	}
}

func (l redsyncLock) release() string {
	ok, err := l.held.Unlock()
	return redsyncAnswer(ok, err)
}

// It extends by what it was made with: another ttl can't be said.
func (l redsyncLock) extend(time.Duration) string { return "error unsupported: another ttl" }

func (l redsyncLock) ttl() string { return "error unsupported" }

func redsyncAnswer(ok bool, err error) string {
	var taken *redsync.ErrTaken
	switch {
	case ok:
		return "ok"
	case err == nil, errors.Is(err, redsync.ErrLockAlreadyExpired), errors.As(err, &taken):
		return "expired"
	default:
		return failed(err)
	}
}

func versionOf(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == path {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	options, err := redis.ParseURL(os.Args[1])
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(options)
	if err := client.Ping(context.Background()).Err(); err != nil {
		panic(err)
	}
	var take acquire
	switch kind := os.Args[2]; kind {
	case "redislock":
		take = bsm(client)
		fmt.Println("ready redislock", versionOf("github.com/bsm/redislock"))
	case "redsync":
		take = sync(client)
		fmt.Println("ready redsync", versionOf("github.com/go-redsync/redsync/v4"))
	default:
		panic("no such kind: " + kind)
	}
	var held lock
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		numbers := make([]time.Duration, 0, len(words))
		for _, word := range words[1:] {
			number, _ := strconv.Atoi(word)
			numbers = append(numbers, time.Duration(number)*time.Millisecond)
		}
		switch {
		case words[0] == "quit":
			return
		case words[0] == "acquire" && len(words) == 4:
			granted, answer := take(words[1], numbers[1], numbers[2])
			if granted != nil {
				held = granted
			}
			fmt.Println(answer)
		case words[0] == "with" && len(words) == 3 && os.Args[2] == "redislock":
			with.token, with.metadata = strings.Trim(words[1], "-"), strings.Trim(words[2], "-")
			fmt.Println("ok")
		case held == nil:
			fmt.Println("error nothing was acquired")
		case words[0] == "release":
			fmt.Println(held.release())
		case words[0] == "extend" && len(words) == 2:
			fmt.Println(held.extend(numbers[0]))
		case words[0] == "ttl":
			fmt.Println(held.ttl())
		case words[0] == "holding":
			// Neither tells without a question to the server; what is left answers it.
			if answer := held.ttl(); strings.HasPrefix(answer, "ok") {
				fmt.Println("ok")
			} else {
				fmt.Println(answer)
			}
		default:
			fmt.Println("error unknown command")
		}
	}
}
