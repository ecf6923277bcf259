// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

final class LocalLocks { }
