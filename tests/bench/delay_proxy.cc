// SPDX-License-Identifier: Apache-2.0
#include <asio.hpp>
#include <asio/experimental/channel.hpp>
#include <memory>
#include <utility>

#include "bench/load.h"

namespace distlock::bench {
namespace {

using Socket = asio::generic::stream_protocol::socket;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

constexpr size_t kReadBytes = 256 * 1024;
constexpr size_t kChunksOnTheWay = 1 << 20;

// Bytes that leave at `due`. No bytes: the sender has closed.
struct Chunk {
  std::chrono::steady_clock::time_point due;
  std::string bytes;
};
using Way = asio::experimental::channel<void(asio::error_code, Chunk)>;

asio::awaitable<void> Receive(std::shared_ptr<Socket> from, std::shared_ptr<Way> way,
                              std::chrono::microseconds one_way) {
  std::string room(kReadBytes, '\0');
  for (size_t size = 1; size > 0;) {
    asio::error_code error;
    size = co_await from->async_read_some(asio::buffer(room), asio::redirect_error(asio::use_awaitable, error));
    Chunk chunk{std::chrono::steady_clock::now() + one_way, room.substr(0, size)};
    co_await way->async_send(asio::error_code(), std::move(chunk), asio::use_awaitable);
  }
}

asio::awaitable<void> Send(std::shared_ptr<Way> way, std::shared_ptr<Socket> to) {
  asio::steady_timer timer(to->get_executor());
  for (asio::error_code error; !error;) {
    const Chunk chunk = co_await way->async_receive(asio::use_awaitable);
    timer.expires_at(chunk.due);
    co_await timer.async_wait(asio::use_awaitable);
    if (chunk.bytes.empty()) break;
    co_await asio::async_write(*to, asio::buffer(chunk.bytes), asio::redirect_error(asio::use_awaitable, error));
  }
  asio::error_code ignored;
  static_cast<void>(to->shutdown(Socket::shutdown_both, ignored));
}

void Carry(const std::shared_ptr<Socket>& from, const std::shared_ptr<Socket>& to, std::chrono::microseconds one_way) {
  const auto way = std::make_shared<Way>(from->get_executor(), kChunksOnTheWay);
  asio::co_spawn(from->get_executor(), Receive(from, way, one_way), asio::detached);
  asio::co_spawn(from->get_executor(), Send(way, to), asio::detached);
}

asio::awaitable<void> Accept(Acceptor acceptor, bool is_tcp, asio::local::stream_protocol::endpoint redis,
                             std::chrono::microseconds one_way) {
  while (true) {
    const auto client = std::make_shared<Socket>(co_await acceptor.async_accept(asio::use_awaitable));
    if (is_tcp) client->set_option(asio::ip::tcp::no_delay(true));
    const auto server = std::make_shared<Socket>(acceptor.get_executor());
    asio::error_code error;
    co_await server->async_connect(redis, asio::redirect_error(asio::use_awaitable, error));
    if (error) continue;
    Carry(client, server, one_way);
    Carry(server, client, one_way);
  }
}

}  // namespace

void RunDelayProxy(int port, const std::string& socket, const std::string& redis_socket,
                   std::chrono::microseconds round_trip) {
  asio::io_context io(1);
  const Acceptor::endpoint_type tcp(
      asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), static_cast<uint16_t>(port)));
  const Acceptor::endpoint_type local(asio::local::stream_protocol::endpoint{socket});
  asio::co_spawn(io, Accept(Acceptor(io, tcp), true, redis_socket, round_trip / 2), asio::detached);
  asio::co_spawn(io, Accept(Acceptor(io, local), false, redis_socket, round_trip / 2), asio::detached);
  io.run();
}

}  // namespace distlock::bench
