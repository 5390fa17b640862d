// Contenders for the lock of redsync, goroutines that share one client.
package main

import (
	"context"
	"math"
	"time"

	"contender"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

type lock struct{ mutex *redsync.Mutex }

func (l lock) Acquire() bool {
	return l.mutex.Lock() == nil
}

func (l lock) Release() bool {
	held, err := l.mutex.Unlock()
	return held && err == nil
}

func main() {
	arguments := contender.Read()
	options, err := redis.ParseURL(arguments.URL)
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(options)
	if err := client.Ping(context.Background()).Err(); err != nil {
		panic(err)
	}
	locks := redsync.New(goredis.NewPool(client))
	settings := []redsync.Option{redsync.WithExpiry(arguments.TTL)}
	if arguments.Setting == "fast" {
		settings = append(settings, redsync.WithRetryDelay(time.Millisecond), redsync.WithTries(math.MaxInt32))
	}
	contender.Contend(arguments, func() contender.Lock {
		return lock{locks.NewMutex(arguments.Name, settings...)}
	})
}
