// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which addresses name brokers, and in which order they are tried. */
final class AddressesTest {
  @ParameterizedTest
  @ValueSource(strings = {"host:7420", "my_host.example:1", "127.0.0.1:65535", "[::1]:7420", "tls://host:7420",
      "tls://[::1]:7420", "unix:///run/x.sock", "/run/x.sock", "dns:///host:7420", "ipv4:127.0.0.1:7420",
      "ipv6:[::1]:7420"})
  void good(String address) {
    assertEquals(1, Addresses.parse(address).all().size());
  }

  @ParameterizedTest
  @ValueSource(strings = {"", ",", "host", "host:", "host:0", "host:65536", "host:x", "::1:7420", "http://host:7420",
      "tls://host", "host:7420,other"})
  void bad(String address) {
    assertThrows(IllegalArgumentException.class, () -> Addresses.parse(address));
    if (!address.isEmpty()) {  // which is that of the environment
      assertThrows(IllegalArgumentException.class, () -> Distlock.builder().address(address).build());
    }
  }

  @Test
  void eachIsTriedOnceARound() {
    Addresses three = Addresses.parse("a:1, b:1,c:1,a:1");
    assertEquals(Set.of("a:1", "b:1", "c:1"), Set.copyOf(three.all()));
    List<String> order = three.all();
    assertEquals(order.get(0), three.present());
    assertTrue(three.next());
    assertEquals(order.get(1), three.present());
    assertTrue(three.next());
    assertFalse(three.next(), "all have been tried");
    assertEquals(order.get(0), three.present());
  }
}
