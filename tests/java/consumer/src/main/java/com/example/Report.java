// SPDX-License-Identifier: Apache-2.0
package com.example;

import dev.distlock.Distlock;
import dev.distlock.HeldLock;
import dev.distlock.LockBusyException;
import dev.distlock.v1.LockInfo;
import java.time.Duration;

/** The first program of client/java/README.md, and a message of the contract. */
final class Report {
  private Report() { }

  public static void main(String[] args) throws InterruptedException {
    try (Distlock dl = Distlock.connect();
        HeldLock held = dl.mutex("report").lock(Duration.ofSeconds(10))) {
      System.out.println(held.token() + " " + LockInfo.getDefaultInstance().getHolderCount());
    } catch (LockBusyException busy) {
      System.out.println(busy.holders());
    }
  }
}
