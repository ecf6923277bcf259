# SPDX-License-Identifier: Apache-2.0
# docker build -t distlock .
FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh --build
COPY . .
RUN cmake --preset release -DDISTLOCK_TESTS=OFF -DDISTLOCK_UNITY=ON \
 && cmake --build --preset release --target distlockd distlockctl \
 && strip build/release/bin/distlockd build/release/bin/distlockctl

FROM debian:12-slim
COPY deploy/install-deps.sh /tmp/
RUN /tmp/install-deps.sh --run && rm -rf /var/lib/apt/lists/* /tmp/install-deps.sh
COPY --from=build /usr/local/lib/libhiredis*.so.* /usr/local/lib/
COPY --from=build /src/build/release/bin/distlockd /src/build/release/bin/distlockctl /usr/local/bin/
RUN ldconfig \
 && groupadd --system --gid 10001 distlock \
 && useradd --system --uid 10001 --gid distlock --no-create-home --shell /usr/sbin/nologin distlock \
 && install -d -o distlock -g distlock -m 0755 /run/distlock
USER 10001:10001
# By default the broker serves a unix socket: share the volume /run/distlock with the containers that take locks.
# For TCP set DISTLOCK_LISTEN=0.0.0.0:7420,unix:///run/distlock/distlock.sock and DISTLOCK_INSECURE_LISTEN=true. Drain and
# force-release are for the socket alone: `docker exec CONTAINER distlockctl drain`. For /metrics, /healthz and /readyz
# from outside set DISTLOCK_HTTP=0.0.0.0:9420.
VOLUME /run/distlock
EXPOSE 7420 9420
COPY deploy/healthcheck.sh /usr/local/bin/distlock-healthcheck
HEALTHCHECK --interval=10s --timeout=5s CMD ["/usr/local/bin/distlock-healthcheck"]
# SIGTERM drains for DISTLOCK_DRAIN_TIMEOUT, 30s by default. Docker kills after 10 s unless told otherwise, and killed
# brokers leave their locks to the ttl: `docker stop -t 40`, or stop_grace_period: 40s in a compose file.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/distlockd"]
