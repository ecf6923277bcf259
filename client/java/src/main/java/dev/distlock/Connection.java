// SPDX-License-Identifier: Apache-2.0
package dev.distlock;

import io.grpc.*;
import java.io.*;
import java.util.concurrent.TimeUnit;

/** Connections to brokers, with the settings of "Messages and connection" in session.md. */
final class Connection {
  private static final String TLS = "tls://";
  private static final String CA = "DISTLOCK_TLS_CA";
  private static final String CERT = "DISTLOCK_TLS_CERT";
  private static final String KEY = "DISTLOCK_TLS_KEY";
  private static final String SERVER_NAME = "DISTLOCK_TLS_SERVER_NAME";

  private Connection() {}

  /** Reads the files that the environment names; IllegalArgumentException for one that cannot be used. */
  static ManagedChannel open(String address) {
    boolean secure = address.startsWith(TLS);
    ManagedChannelBuilder<?> builder = Grpc.newChannelBuilder(secure ? address.substring(TLS.length()) : address,
        secure ? credentials() : InsecureChannelCredentials.create());
    if (secure && isSet(SERVER_NAME)) builder.overrideAuthority(System.getenv(SERVER_NAME));
    return builder
        .keepAliveTime(10, TimeUnit.SECONDS)
        .keepAliveTimeout(5, TimeUnit.SECONDS)
        .keepAliveWithoutCalls(true)
        .disableRetry()  // the lock table decides what is sent again
        .proxyDetector(target -> null)  // the proxy of the environment is meant for the web
        .build();
  }

  private static ChannelCredentials credentials() {
    if (isSet(CERT) != isSet(KEY)) {
      throw new IllegalArgumentException("distlock: " + CERT + " and " + KEY + " belong together: give both, or none");
    }
    TlsChannelCredentials.Builder made = TlsChannelCredentials.newBuilder();
    try {
      if (isSet(CA)) made.trustManager(file(CA));
      if (isSet(CERT)) made.keyManager(file(CERT), file(KEY));
    } catch (IOException unreadable) {
      throw new IllegalArgumentException("distlock: " + CA + ", " + CERT + " or " + KEY + ": "
          + unreadable.getMessage(), unreadable);
    }
    return made.build();
  }

  private static boolean isSet(String name) { return !Addresses.env(name).isEmpty(); }
  private static File file(String name) { return new File(Addresses.env(name)); }
}
