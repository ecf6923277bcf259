// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"time"

	distlock "distlock.dev/client/go"
	"distlock.dev/client/go/distlocktest"
	"distlock.dev/client/go/k8slock"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const patience = 60 * time.Second

var background = context.Background()

func assert(t *testing.T, ok bool, what string, values ...any) {
	t.Helper()
	if !ok {
		t.Fatalf("not so: "+what, values...)
	}
}

func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("no %s within %v", what, patience)
		panic("not reached")
	}
}

// controller is a real manager of a cluster that nobody asks, since it watches nothing.
type controller struct {
	*k8slock.Lock
	leads chan int64
	ended chan error
}

func start(t *testing.T, ctx context.Context, broker *distlocktest.Broker, identity string) *controller {
	t.Helper()
	c := &controller{k8slock.New(broker.Client(), k8slock.Config{Election: "e", Identity: identity}),
		make(chan int64, 1), make(chan error, 1)}
	made, err := newManager(&rest.Config{Host: "https://127.0.0.1:1"}, c.Lock)
	assert(t, err == nil, "%v", err)
	err = made.Add(manager.RunnableFunc(func(ctx context.Context) error {
		c.leads <- c.Token()
		<-ctx.Done()
		return nil
	}))
	assert(t, err == nil, "%v", err)
	go func() { c.ended <- c.Run(ctx, made.Start) }()
	return c
}

func TestManagersOfTwoClustersHaveOneLeader(t *testing.T) {
	broker := distlocktest.New()
	ctx, stop := context.WithCancel(background)
	defer stop()
	eu := start(t, ctx, broker, "eu")
	first := within(t, "leader", eu.leads)
	us := start(t, background, broker, "us")
	stop()
	assert(t, within(t, "end", eu.ended) == nil, "it ends in good order, and gives back")
	second := within(t, "second leader", us.leads)
	assert(t, first > 0 && second > first, "%d %d", first, second)
	broker.Lose("", "e", distlock.CauseForced)
	var lost *distlock.LostError
	assert(t, errors.As(within(t, "end", us.ended), &lost), "the manager ends when the lock is lost")
}

type led int64

func (l led) Token() int64   { return int64(l) }
func (led) Identity() string { return "mine" }

func TestALaterLeadersMarkIsNotOverwritten(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "c", Labels: map[string]string{example: "yes"}}}
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}}
	cluster := fake.NewClientBuilder().WithObjects(object, other).Build()
	stamp := func(token int64, name string) (string, error) {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: name}}
		_, err := (&stamper{cluster, led(token)}).Reconcile(background, request)
		var found corev1.ConfigMap
		_ = cluster.Get(background, request.NamespacedName, &found)
		return found.Annotations[tokenEntry], err
	}
	for _, step := range []struct {
		token  int64
		name   string
		found  string
		refuse bool
	}{{5, "c", "5", false}, {5, "c", "5", false}, {4, "c", "5", true}, {0, "c", "5", true}, {6, "c", "6", false},
		{7, "other", "", false}, {7, "none", "", false}} {
		found, err := stamp(step.token, step.name)
		assert(t, found == step.found && (err != nil) == step.refuse, "%+v: %q %v", step, found, err)
	}
}
