// Contenders for the lock of bsm/redislock, goroutines that share one client.
package main

import (
	"context"
	"time"

	"contender"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type lock struct {
	client    *redislock.Client
	arguments contender.Arguments
	pause     time.Duration
	held      *redislock.Lock
}

func (l *lock) Acquire() bool {
	options := redislock.Options{RetryStrategy: redislock.LinearBackoff(l.pause)}
	// Without a deadline it would give up when a lease's time has passed.
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	var err error
	l.held, err = l.client.Obtain(ctx, l.arguments.Name, l.arguments.TTL, &options)
	return err == nil
}

func (l *lock) Release() bool {
	return l.held.Release(context.Background()) == nil
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
	pause := 100 * time.Millisecond
	if arguments.Setting == "fast" {
		pause = time.Millisecond
	}
	locks := redislock.New(client)
	contender.Contend(arguments, func() contender.Lock {
		return &lock{client: locks, arguments: arguments, pause: pause}
	})
}
