# SPDX-License-Identifier: Apache-2.0
# docker build -t distlock .                                       the broker, for a store of yours
# docker build -t distlock:standalone --target standalone .        with a Redis of its own, for one machine
FROM debian:12-slim AS build
ARG VERSION=0.1.0
WORKDIR /src
COPY deploy/install-deps.sh deploy/
COPY deploy/grpc deploy/grpc
RUN deploy/install-deps.sh --build
COPY . .
RUN cmake --preset release -DDISTLOCK_TESTS=OFF -DDISTLOCK_UNITY=ON -DDISTLOCK_GRPC=hardened \
 && cmake --build --preset release --target distlockd distlockctl \
 && strip build/release/bin/distlockd build/release/bin/distlockctl
# Each root has only what runs; the folder of the socket is apart, because it belongs to the broker.
RUN cd build/release/bin \
 && /src/deploy/image/closure.sh /image/broker "$VERSION" distlockd distlockctl \
 && /src/deploy/image/closure.sh /image/standalone "$VERSION" distlockd distlockctl \
      /usr/bin/redis-server \
 && mkdir /image/run && mv /image/broker/run/distlock /image/run/ && rmdir /image/standalone/run/distlock

FROM scratch AS standalone
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.title="distlock" \
      org.opencontainers.image.description="A lock broker: gRPC in front, Redis or Valkey behind" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="debian:12-slim"
COPY --from=build /image/standalone/ /
COPY --from=build --chown=10001:10001 /image/run/ /run/
ENV PATH=/usr/local/bin:/usr/bin
USER 10001:10001
EXPOSE 7420 9420
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s CMD ["/usr/local/bin/distlockctl", "status", "--alive"]
ENTRYPOINT ["/usr/local/bin/distlockd"]

FROM scratch AS broker
ARG VERSION=0.1.0
ARG REVISION=
ARG SOURCE=
LABEL org.opencontainers.image.title="distlock" \
      org.opencontainers.image.description="A lock broker: gRPC in front, Redis or Valkey behind" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="debian:12-slim"
COPY --from=build /image/broker/ /
COPY --from=build --chown=10001:10001 /image/run/ /run/
ENV PATH=/usr/local/bin:/usr/bin
# By default the broker serves a unix socket: share /run/distlock with the containers that take locks, and give them the
# group 10001. For TCP set DISTLOCK_LISTEN=0.0.0.0:7420,unix:///run/distlock/distlock.sock and
# DISTLOCK_INSECURE_LISTEN=true. Drain and force-release are for the socket alone. For /metrics, /healthz and /readyz
# from outside set DISTLOCK_HTTP=0.0.0.0:9420.
USER 10001:10001
EXPOSE 7420 9420
# SIGTERM drains for DISTLOCK_DRAIN_TIMEOUT, 30s by default. Docker kills after 10 s unless told otherwise, and killed
# brokers leave their locks to the ttl: `docker stop -t 40`, or stop_grace_period: 40s in a compose file.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s CMD ["/usr/local/bin/distlockctl", "status", "--alive"]
ENTRYPOINT ["/usr/local/bin/distlockd"]
