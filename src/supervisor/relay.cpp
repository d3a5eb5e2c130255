#include "supervisor/relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/files.h"
#include "flockstep/error.h"
#include "supervisor/lines.h"

namespace flockstep::supervisor {
namespace {

// What is sent to the relay: a stream to read from (its descriptor comes along), a line, or that all is done here.
struct Order {
  enum class What : std::int32_t { stream, line, goodbye };
  What what;
  std::int32_t rank = 0, target = STDERR_FILENO;
};
constexpr std::size_t kLongestLine = 8 << 10;
constexpr int kMomentMs = 2000;

class RelayProcess {
 public:
  RelayProcess(int control, bool with_prefix, const std::string& folder)
      : control_(control), with_prefix_(with_prefix), folder_(folder) {}

  void run() {
    while (is_ordered_ || !streams_.empty()) {
      std::vector<pollfd> watched;
      for (const Stream& stream : streams_) watched.push_back({stream.source.get(), POLLIN, 0});
      if (is_ordered_) watched.push_back({control_.get(), POLLIN, 0});
      if (::poll(watched.data(), watched.size(), -1) < 0) continue;
      const bool has_order = is_ordered_ && watched.back().revents != 0;
      // Streams first: what a worker wrote comes before what is said about its end.
      for (std::size_t i = streams_.size(); i-- > 0;)
        if (watched[i].revents != 0 && !pass_on(streams_[i])) streams_.erase(streams_.begin() + static_cast<long>(i));
      if (has_order) obey();
    }
  }

 private:
  struct Stream {
    Descriptor source;
    int target;
    Lines lines;
  };

  // False at the end of the stream.
  bool pass_on(Stream& stream) {
    const ::ssize_t count = ::read(stream.source.get(), buffer_.data(), buffer_.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    write_all(stream.target,
              count == 0 ? stream.lines.end() : stream.lines.add({buffer_.data(), static_cast<std::size_t>(count)}));
    return count > 0;
  }

  // Where nobody reads any more, the rest is dropped: workers do not end because a terminal did.
  void write_all(int target, std::string_view text) {
    while (!text.empty()) {
      const ::ssize_t count = ::write(target, text.data(), text.size());
      if (count >= 0) {
        text.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        pollfd room{target, POLLOUT, 0};
        ::poll(&room, 1, -1);
      } else if (errno != EINTR) {
        return;
      }
    }
  }

  void obey() {
    Order order{};
    std::array<char, kLongestLine> text;
    std::array<iovec, 2> parts{{{&order, sizeof order}, {text.data(), text.size()}}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> extra{};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    const ::ssize_t count = ::recvmsg(control_.get(), &message, MSG_CMSG_CLOEXEC);
    if (count < 0 && errno == EINTR) return;
    if (count < static_cast<::ssize_t>(sizeof order)) {
      is_ordered_ = false;
      // The launcher was killed. Its store has gone with it, so that no worker needs the secret any more.
      if (!said_goodbye_) base::remove_folder(folder_);
      return;
    }
    const cmsghdr* with = CMSG_FIRSTHDR(&message);
    if (order.what == Order::What::goodbye) {
      said_goodbye_ = true;
    } else if (order.what == Order::What::line) {
      write_all(order.target, {text.data(), static_cast<std::size_t>(count) - sizeof order});
    } else if (with && with->cmsg_type == SCM_RIGHTS) {
      int source = -1;
      std::memcpy(&source, CMSG_DATA(with), sizeof source);
      streams_.push_back(
          {Descriptor(source), order.target, Lines(with_prefix_ ? fmt::format("[{}] ", order.rank) : "")});
    }
  }

  Descriptor control_;      // closed with this process: the launcher sees the end
  bool is_ordered_ = true;  // by somebody who lives
  bool with_prefix_, said_goodbye_ = false;
  const std::string folder_;  // with the secret; the launcher removes it unless it is killed
  std::vector<Stream> streams_;
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
};

// Closes all descriptors but the standard ones and the one that becomes number 3.
void keep_only(int control) {
  ::dup2(control, STDERR_FILENO + 1);
  const int first = STDERR_FILENO + 2;
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
#endif
  for (long number = first; number < ::sysconf(_SC_OPEN_MAX); ++number) ::close(static_cast<int>(number));
}

// The other process, which never returns.
[[noreturn]] void relay(int control, bool with_prefix, const std::string& folder) {
  ::setsid();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGQUIT}) ::signal(number, SIG_IGN);
  ::prctl(PR_SET_NAME, "flockstep-relay");
  keep_only(control);
  RelayProcess(STDERR_FILENO + 1, with_prefix, folder).run();
  ::_exit(0);
}

bool send_order(int control, const Order& order, std::string_view text, int descriptor = -1) {
  std::array<iovec, 2> parts{
      {{const_cast<Order*>(&order), sizeof order}, {const_cast<char*>(text.data()), text.size()}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> extra{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  if (descriptor >= 0) {
    message.msg_control = extra.data();
    message.msg_controllen = extra.size();
    cmsghdr* with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(with), &descriptor, sizeof descriptor);
  }
  while (true) {
    if (::sendmsg(control, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EINTR) return false;
  }
}

}  // namespace

Relay::Relay(bool with_prefix, const std::string& folder) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw Error(ErrorCode::unavailable, fmt::format("cannot make a pair of sockets: {}", std::strerror(errno)));
  control_ = Descriptor(ends[0]);
  const Descriptor its(ends[1]);
  id_ = ::fork();
  if (id_ == 0) relay(its.get(), with_prefix, folder);
  if (id_ < 0) throw Error(ErrorCode::unavailable, fmt::format("cannot start a process: {}", std::strerror(errno)));
}

Relay::~Relay() {
  send_order(control_.get(), {Order::What::goodbye}, {});
  ::shutdown(control_.get(), SHUT_WR);
  // Somebody whom a worker left behind may still write; the relay then stays for that one.
  pollfd end{control_.get(), POLLIN, 0};
  if (::poll(&end, 1, kMomentMs) > 0)
    while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Descriptor Relay::stream(int rank, int target) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw Error(ErrorCode::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  const Descriptor source(ends[0]);
  Descriptor sink(ends[1]);
  if (!send_order(control_.get(), {Order::What::stream, rank, target}, {}, source.get()))
    throw Error(ErrorCode::unavailable, "the process that forwards the workers' output has ended");
  return sink;
}

void Relay::say(const std::string& sentence) {
  const std::string line = fmt::format("flockstep: {}\n", sentence).substr(0, kLongestLine);
  if (send_order(control_.get(), {Order::What::line}, line)) return;
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace flockstep::supervisor
