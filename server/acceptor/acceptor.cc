// SPDX-License-Identifier: Apache-2.0
#include "acceptor/acceptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace distlock::acceptor {
namespace {

constexpr int kBatch = 16;
constexpr int kEvents = 64;
constexpr uint64_t kWakeKey = 0;
constexpr uint64_t kDeathsKey = 1;
constexpr uint64_t kFirstListenerKey = 2;
constexpr uint64_t kFirstId = 1 << 16;
constexpr std::chrono::milliseconds kPause(100);
constexpr std::chrono::milliseconds kRateLimitTick(20);
constexpr std::chrono::milliseconds kSampleTick(100);
constexpr std::chrono::seconds kProbeEvery(5);
constexpr size_t kSamplesPerTick = 500;
constexpr int kFirstNumber = 1024;
constexpr int kMostNumbers = 1 << 16;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr unsigned char kTlsHandshake = 22;

int OpenDescriptors() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 64;
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

bool MeansNoDescriptor(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Acceptor::Acceptor(AcceptorOptions options)
    : options_(std::move(options)),
      peers_(options_.peer),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      handshakes_(options_.handshakes_per_second, 2 * options_.handshakes_per_second),
      reserve_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      next_id_(kFirstId) {}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Open(AcceptorOptions options) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(options)));
  if (absl::Status fits = acceptor->FitDescriptors(); !fits.ok()) return fits;
  if (absl::Status listening = acceptor->Listen(); !listening.ok()) return listening;
  return acceptor;
}

absl::Status Acceptor::FitDescriptors() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const int64_t limit = static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, 1 << 24));
  const bool watches = options_.watch_processes.count() > 0 &&
                       std::any_of(options_.listen.begin(), options_.listen.end(),
                                   [](const std::string& address) { return !UnixPath(address).empty(); });
  // Two for each connection, and one for its process. A tenth stays free for what else the process opens.
  const int64_t fitting = (limit * 9 / 10 - OpenDescriptors()) / (watches ? 3 : 2);
  if (fitting < 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("the limit of open files is ", limit, ", too few to serve anybody: raise it (ulimit -n)"));
  }
  options_.max_connections = std::min(options_.max_connections, static_cast<size_t>(fitting));
  if (watches) {
    deaths_ =
        std::make_unique<Deaths>(KernelProbe(), options_.max_connections, options_.watch_processes, options_.observer);
  }
  const int first = static_cast<int>(std::min<int64_t>(kFirstNumber, limit / 2));
  numbers_ = std::make_unique<Numbers>(first, static_cast<int>(std::min<int64_t>(kMostNumbers, limit - first)));
  return absl::OkStatus();
}

absl::Status Acceptor::Listen() {
  auto opened = OpenListeners(options_.listen, options_.inherited);
  if (!opened.ok()) return opened.status();
  listeners_ = *std::move(opened);
  for (const Listener& listener : listeners_) {
    probes_.emplace_back(listener);
    if (listener.made_folder && options_.observer != nullptr) {
      options_.observer->OnFolderMade(std::filesystem::path(listener.path).parent_path());
    }
    if (std::find(addresses_.begin(), addresses_.end(), listener.address) == addresses_.end()) {
      addresses_.push_back(listener.address);
    }
  }
  return absl::OkStatus();
}

Acceptor::~Acceptor() {
  stop_ = true;
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  handing_.Finish();
  CloseListeners();
  for (auto& [id, inside] : inside_) inside.connection->Close();
}

void Acceptor::Start(HandOver hand_over) {
  hand_over_ = std::move(hand_over);
  Watch(wake_.get(), EPOLLIN, kWakeKey, true);
  if (deaths_ != nullptr) Watch(deaths_->fd(), EPOLLIN, kDeathsKey, true);
  for (size_t i = 0; i < listeners_.size(); ++i) {
    Watch(listeners_[i].fd.get(), EPOLLIN, kFirstListenerKey + i, true);
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "acceptor");
}

void Acceptor::StopAccepting() {
  if (!thread_.joinable() || stop_accepting_.exchange(true)) return;
  eventfd_write(wake_.get(), 1);
  accepts_no_more_.get_future().wait();
  handing_.Finish();
}

std::string Acceptor::DeadListener() const {
  const auto now = Clock::now();
  if (stop_accepting_.load(std::memory_order_relaxed)) return "";
  for (const Probe& probe : probes_) {
    if (!probe.Alive(now)) return probe.address;
  }
  return "";
}

void Acceptor::Watch(int fd, uint32_t events, uint64_t key, bool is_new) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  epoll_ctl(epoll_.get(), is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
}

void Acceptor::Run() {
  std::array<epoll_event, kEvents> events{};
  next_probe_ = Clock::now();
  while (!stop_.load(std::memory_order_relaxed)) {
    const int count = epoll_wait(epoll_.get(), events.data(), kEvents, TimeoutMs());
    const auto now = Clock::now();
    for (int i = 0; i < count; ++i) OnEvent(events[i].data.u64, events[i].events, now);
    Tick(now);
    if (stop_accepting_.load(std::memory_order_relaxed) && !listeners_.empty()) {
      CloseListeners();
      while (!waiting_.empty()) {
        peers_.Leave(waiting_.begin()->second.peer, now);
        waiting_.erase(waiting_.begin());
      }
      accepts_no_more_.set_value();
    }
  }
}

int Acceptor::TimeoutMs() const {
  if (!waiting_.empty() || handing_.is_busy()) return kRateLimitTick.count();
  if (!sampled_.empty() || paused_) return kSampleTick.count();
  return std::chrono::milliseconds(kProbeEvery).count();
}

void Acceptor::OnEvent(uint64_t key, uint32_t events, Clock::time_point now) {
  if (key == kWakeKey) {
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
  } else if (key == kDeathsKey) {
    deaths_->OnReadable();
  } else if (key < kFirstId) {
    if (key - kFirstListenerKey < listeners_.size()) Accept(key - kFirstListenerKey, now);
  } else if (const auto waiting = waiting_.find(key); waiting != waiting_.end()) {
    const bool gone = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    gone ? Drop(waiting, RefuseCause::kPreface, now) : TryLetIn(key, now);
  } else if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
    Leave(key, now);
  }
}

void Acceptor::Accept(size_t listener, Clock::time_point now) {
  for (int i = 0; i < kBatch; ++i) {
    sockaddr_storage from{};
    socklen_t size = sizeof(from);
    Fd fd(accept4(listeners_[listener].fd.get(), reinterpret_cast<sockaddr*>(&from), &size,
                  SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.get() < 0) {
      const int why = errno;
      if (why == EINTR || why == ECONNABORTED) continue;
      if (MeansNoDescriptor(why)) AcceptWithoutDescriptors(listener, now);
      return;
    }
    if (!ProbeOf(listener).IsFrom(from, size, now)) Admit(std::move(fd), listener, from, now);
  }
}

void Acceptor::AcceptWithoutDescriptors(size_t listener, Clock::time_point now) {
  reserve_.Reset();
  const Fd dropped(accept4(listeners_[listener].fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  // A restart would end the connections that live, and gain nothing.
  ProbeOf(listener).CannotTell(now);
  if (options_.observer != nullptr)
    options_.observer->OnRefused(RefuseCause::kDescriptors, listeners_[listener].address);
  if (!paused_) {
    for (size_t i = 0; i < listeners_.size(); ++i) Watch(listeners_[i].fd.get(), 0, kFirstListenerKey + i, false);
  }
  paused_ = true;
  paused_until_ = now + kPause;
}

Probe& Acceptor::ProbeOf(size_t listener) { return *std::next(probes_.begin(), static_cast<std::ptrdiff_t>(listener)); }

Kind Acceptor::KindOf(size_t listener) const {
  if (listeners_[listener].is_unix) return Kind::kUnix;
  return options_.tls ? Kind::kTls : Kind::kTcp;
}

void Acceptor::Admit(Fd fd, size_t listener, const sockaddr_storage& from, Clock::time_point now) {
  const bool is_unix = listeners_[listener].is_unix;
  std::string address;
  std::string peer;
  if (is_unix) {
    const auto who = CredentialsOf(fd.get());
    peer = PeerText(who ? who->uid : peer::kOverflowUid);
    address = who ? absl::StrCat(peer, ",pid=", who->pid) : peer;
  } else {
    peer = PeerText(from);
    address = AddressText(from);
  }
  if (waiting_.size() + inside_.size() >= options_.max_connections) {
    return Refuse(RefuseCause::kConnections, peer, std::move(fd), is_unix);
  }
  if (const auto why = peers_.Enter(peer, now)) return Refuse(*why, peer, std::move(fd), is_unix);
  const uint64_t id = next_id_++;
  Watch(fd.get(), EPOLLIN | EPOLLRDHUP | EPOLLET, id, true);
  waiting_.emplace(id, Waiting{.fd = std::move(fd),
                               .listener = listener,
                               .address = std::move(address),
                               .peer = std::move(peer),
                               .deadline = now + options_.patience});
}

Acceptor::FirstBytes Acceptor::Look(const Waiting& waiting) const {
  std::array<char, kPreface.size()> bytes{};
  const ssize_t got = recv(waiting.fd.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? FirstBytes::kMore : FirstBytes::kWrong;
  if (got == 0) return FirstBytes::kWrong;
  if (KindOf(waiting.listener) == Kind::kTls) {
    return static_cast<unsigned char>(bytes[0]) == kTlsHandshake ? FirstBytes::kRight : FirstBytes::kWrong;
  }
  const std::string_view seen(bytes.data(), static_cast<size_t>(got));
  if (!kPreface.starts_with(seen)) return FirstBytes::kWrong;
  return seen.size() == kPreface.size() ? FirstBytes::kRight : FirstBytes::kMore;
}

void Acceptor::TryLetIn(uint64_t id, Clock::time_point now) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  Waiting& waiting = found->second;
  const FirstBytes first = Look(waiting);
  if (first == FirstBytes::kWrong) return Drop(found, RefuseCause::kPreface, now);
  if (first == FirstBytes::kMore) return;
  waiting.has_spoken = true;
  if (peers_.MayPass(waiting.peer, KindOf(waiting.listener) == Kind::kTls, handshakes_, now)) LetIn(found, now);
}

void Acceptor::LetIn(std::map<uint64_t, Waiting>::iterator at, Clock::time_point now) {
  const uint64_t id = at->first;
  Waiting& waiting = at->second;
  const Kind kind = KindOf(waiting.listener);
  const int fd = waiting.fd.get();
  Fd given(kind == Kind::kUnix ? numbers_->Take(fd, now) : fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (given.get() < 0) return Drop(at, RefuseCause::kDescriptors, now);
  if (kind != Kind::kUnix) {
    const int yes = 1;
    const auto timeout = static_cast<unsigned>(options_.user_timeout.count());
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
  }
  Inside inside{.connection = nullptr,
                .name = kind == Kind::kUnix ? absl::StrCat("fd:", given.get()) : waiting.address,
                .number = kind == Kind::kUnix ? given.get() : -1,
                .sampled = sampled_.size()};
  auto who = kind == Kind::kUnix ? CredentialsOf(fd) : std::nullopt;
  inside.connection =
      std::make_shared<Connection>(id, kind, std::move(waiting.address), std::move(waiting.peer), std::move(who),
                                   waiting.fd.Release(), options_.calls, options_.observer);
  const int listener_fd = listeners_[waiting.listener].fd.get();
  waiting_.erase(at);
  if (kind != Kind::kUnix) sampled_.push_back(id);
  peers_.Show(inside.name, inside.connection);
  const std::shared_ptr<Connection> connection = inside.connection;
  inside_.emplace(id, std::move(inside));
  inside_count_.store(inside_.size(), std::memory_order_relaxed);
  // From now on data wakes only the other side.
  Watch(fd, EPOLLRDHUP | EPOLLHUP | EPOLLET, id, false);
  handing_.Give(connection,
                [this, fd = given.Release(), listener_fd, connection] { hand_over_(fd, listener_fd, *connection); });
}

void Acceptor::Refuse(RefuseCause why, const std::string& who, Fd fd, bool is_unix) {
  if (!is_unix) {
    // A reset instead of a goodbye, so that nothing of the connection is kept.
    const linger at_once{1, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  fd.Reset();
  if (options_.observer != nullptr) options_.observer->OnRefused(why, who);
}

void Acceptor::Drop(std::map<uint64_t, Waiting>::iterator at, RefuseCause why, Clock::time_point now) {
  Waiting waiting = std::move(at->second);
  waiting_.erase(at);
  peers_.Leave(waiting.peer, now);
  Refuse(why, waiting.address, std::move(waiting.fd), listeners_[waiting.listener].is_unix);
}

void Acceptor::Leave(uint64_t id, Clock::time_point now) {
  const auto found = inside_.find(id);
  if (found == inside_.end()) return;
  const Inside inside = std::move(found->second);
  inside_.erase(found);
  inside_count_.store(inside_.size(), std::memory_order_relaxed);
  if (inside.number >= 0) {
    numbers_->Rest(inside.number, now);
  } else {
    // The last one takes its place.
    const uint64_t last = sampled_.back();
    sampled_[inside.sampled] = last;
    sampled_.pop_back();
    if (last != id) inside_.at(last).sampled = inside.sampled;
  }
  peers_.Hide(inside.name, id);
  peers_.Leave(inside.connection->peer, now);
  if (inside.connection->was_cut()) peers_.Punish(inside.connection->peer, now);
  inside.connection->Close();
  if (deaths_ != nullptr) deaths_->Leave(id, now);
}

void Acceptor::Tick(Clock::time_point now) {
  if (paused_ && now >= paused_until_) {
    paused_ = false;
    // May fail, because whatever else this process does takes descriptors, too: then again after the next pause.
    if (reserve_.get() < 0) reserve_ = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (size_t i = 0; i < listeners_.size(); ++i) Watch(listeners_[i].fd.get(), EPOLLIN, kFirstListenerKey + i, false);
  }
  if (now >= next_look_) {
    next_look_ = now + kRateLimitTick;
    LookAtWaiting(now);
  }
  if (now >= next_probe_ && !listeners_.empty()) {
    next_probe_ = now + kProbeEvery;
    for (Probe& probe : probes_) probe.Connect(now);
  }
  handing_.Tick(now);
  if (deaths_ != nullptr) deaths_->Tick(now);
  Sample(now);
}

void Acceptor::LookAtWaiting(Clock::time_point now) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto next = std::next(at);
    if (now >= at->second.deadline) {
      Drop(at, at->second.has_spoken ? RefuseCause::kRate : RefuseCause::kPreface, now);
    } else if (at->second.has_spoken) {
      TryLetIn(at->first, now);
    }
    at = next;
  }
}

void Acceptor::Sample(Clock::time_point now) {
  if (now < next_sampling_) return;
  next_sampling_ = now + kSampleTick;
  for (size_t i = 0; i < std::min(kSamplesPerTick, sampled_.size()); ++i) {
    next_sample_ = (next_sample_ + 1) % sampled_.size();
    inside_[sampled_[next_sample_]].connection->CheckBytes(now);
  }
}

void Acceptor::CloseListeners() {
  for (Listener& listener : listeners_) CloseListener(listener);
  listeners_.clear();
}

}  // namespace distlock::acceptor
