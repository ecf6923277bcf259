// SPDX-License-Identifier: Apache-2.0

package distlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
)

func Example() {
	ctx := context.Background()
	broker := distlocktest.New()
	mine, theirs := broker.Client(), broker.Client()
	held, _ := mine.Lock(ctx, "report", distlock.MaxHold(time.Minute))
	_, err := theirs.Lock(ctx, "report", distlock.Try())
	var busy *distlock.BusyError
	fmt.Println(errors.As(err, &busy), held.Valid())

	broker.Advance(time.Minute) // Lose and Stop end locks, too
	var lost *distlock.LostError
	fmt.Println(errors.As(held.Err(), &lost), lost.Cause, held.Context().Err())

	next, err := theirs.Lock(ctx, "report", distlock.Try())
	fmt.Println(next.Token(), err)
	// Output:
	// true true
	// true MAX_HOLD context canceled
	// 2 <nil>
}
