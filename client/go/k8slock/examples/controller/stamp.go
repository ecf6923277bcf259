// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	example     = "distlock.dev/example"
	leaderEntry = "distlock.dev/leader"
	tokenEntry  = "distlock.dev/token"
)

// leadership is what the controller needs of a k8slock.Lock.
type leadership interface {
	Token() int64
	Identity() string
}

type stamper struct {
	client client.Client
	lock   leadership
}

func watch(manager ctrl.Manager, lock leadership) error {
	return ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).
		Complete(&stamper{manager.GetClient(), lock})
}

// Reconcile writes who leads, unless a later leader has written: Update fails when the object was changed since Get, so
// that a leader who was lost in between cannot overwrite what the next one writes.
func (s *stamper) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object corev1.ConfigMap
	if err := s.client.Get(ctx, request.NamespacedName, &object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	token := s.lock.Token()
	written, _ := strconv.ParseInt(object.Annotations[tokenEntry], 10, 64)
	switch {
	case object.Labels[example] == "" || written == token:
		return reconcile.Result{}, nil
	case written > token:
		return reconcile.Result{}, fmt.Errorf("token %d is older than %d, which %s has written", token, written,
			object.Annotations[leaderEntry])
	}
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[leaderEntry] = s.lock.Identity()
	object.Annotations[tokenEntry] = strconv.FormatInt(token, 10)
	return reconcile.Result{}, s.client.Update(ctx, &object)
}
