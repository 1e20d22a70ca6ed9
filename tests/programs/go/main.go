// A rate limiter: who asks more often than allowed has to wait, whatever asks at the same time.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

func main() {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1]})
	defer client.Close()
	limiter := redis_rate.NewLimiter(client)

	var allowed, refused atomic.Int64
	var tasks sync.WaitGroup
	for range 50 {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			for range 4 {
				result, err := limiter.Allow(ctx, "user:1", redis_rate.PerHour(20))
				if err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				allowed.Add(int64(result.Allowed))
				refused.Add(int64(1 - result.Allowed))
			}
		}()
	}
	tasks.Wait()
	fmt.Println("allowed", allowed.Load(), "refused", refused.Load())

	other, err := limiter.AllowN(ctx, "user:2", redis_rate.PerHour(20), 15)
	fmt.Println("another user", other.Allowed, other.Remaining, err)
	none, err := limiter.AllowN(ctx, "user:2", redis_rate.PerHour(20), 15)
	fmt.Println("too many at once", none.Allowed, none.RetryAfter > 0, err)
	some, err := limiter.AllowAtMost(ctx, "user:2", redis_rate.PerHour(20), 15)
	fmt.Println("as many as there are", some.Allowed, err)
	fmt.Println("reset", limiter.Reset(ctx, "user:2"))
	again, err := limiter.Allow(ctx, "user:2", redis_rate.PerHour(20))
	fmt.Println("after a reset", again.Allowed, again.Remaining, err)
}
