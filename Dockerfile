# SPDX-License-Identifier: Apache-2.0
# docker build -t distlock .
FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/install-deps.sh deploy/
RUN deploy/install-deps.sh --build
COPY . .
RUN cmake --preset release -DDISTLOCK_TESTS=OFF \
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
# The default is a unix socket: share /run/distlock with whoever locks. The ports are for DISTLOCK_LISTEN=0.0.0.0:7420
# (with DISTLOCK_INSECURE_LISTEN=true) and DISTLOCK_HTTP=0.0.0.0:9420 (/metrics, /healthz, /readyz).
VOLUME /run/distlock
EXPOSE 7420 9420
HEALTHCHECK --interval=10s --timeout=5s CMD ["/usr/local/bin/distlockctl", "status"]
ENTRYPOINT ["/usr/local/bin/distlockd"]
