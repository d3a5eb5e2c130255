// The connections of one worker and the thread that serves them. All state is that thread's: callers hand over what
// they want, and hear through Ears. Its only locks are those of the queue of tasks and of the copier; both are
// innermost.
#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/steady_timer.hpp>
#include <future>
#include <mutex>
#include <thread>

#include "engines/mesh/meetings.h"
#include "engines/mesh/session.h"

namespace flockstep::engines::mesh {

class Hub final : public Session::Home, public Circle, public PartPoster {
 public:
  struct Ears {  // called by the hub's thread
    virtual ~Ears() = default;
    virtual bool hear(Control control) = 0;  // false: too many are waiting
    virtual void hear_failure(const Error& error) = 0;
    virtual std::vector<std::byte> answer() = 0;
    virtual bool hear_answer(int peer, ConstBytes payload) = 0;
  };

  // Listens and registers; throws Error{unavailable} where it cannot.
  Hub(const MeshOptions& options, Ears& ears);
  ~Hub() override;
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // ---- any other thread ----
  void start(const std::shared_ptr<Exchange>& exchange);
  void withdraw(const std::shared_ptr<Exchange>& exchange);
  void send_control(int peer, ConstBytes payload);
  void ask(int peer);
  Incarnation incarnation() const { return incarnation_; }
  void begin_again(Incarnation next);
  void tell_progress();
  void leave(std::vector<std::byte> farewell);  // the run; does not wait
  // Waits until every connection is closed, which takes a second at most, and ends the thread.
  void end() noexcept;
  // Once its thread has ended: ends what was handed over too late for it.
  void end_the_late() noexcept;

 private:
  bool hear_control(int peer, Incarnation incarnation, ConstBytes payload) override;
  void hear_book(const Book& book) override;
  std::vector<std::byte> answer() override { return ears_.answer(); }
  bool hear_answer(int peer, ConstBytes payload) override { return ears_.hear_answer(peer, payload); }
  void on_mismatch(int peer, std::size_t expected, std::size_t sent) override;
  void on_lost(Session& session, const std::string& sentence) override;
  void on_settled() override;
  void copy(std::shared_ptr<CopyJob> job) override { copier_.run(std::move(job)); }
  asio::any_io_executor executor() override { return io_.get_executor(); }
  bool reads_memory() const override { return options_.reads_memory; }

  bool is_met(int rank) override;
  void probe(int rank) override { session_with(rank)->say(FrameCode::heartbeat); }
  void meet(asio::ip::tcp::socket socket, const Card& peer, std::unique_ptr<ProvableMemory> memory,
            ConstBytes first) override;
  void on_outdated(Incarnation known) override;

  void post(const PartPtr& part) override;

  std::shared_ptr<Session>& session_with(int peer);
  void leave_all(ConstBytes farewell);
  void begin(Incarnation incarnation, const Book& book);
  void tend();
  void run() noexcept;
  template <typename Task>
  void ask_thread(Task task);  // and wait until it is done

  const MeshOptions options_;
  Ears& ears_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Meetings meetings_;
  asio::steady_timer tending_{io_};
  const Clock::duration timeout_, tend_every_;
  Clock::time_point tended_ = Clock::now();
  std::map<int, std::shared_ptr<Session>> sessions_;
  std::list<std::pair<std::shared_ptr<Session>, Clock::time_point>> leaving_;  // to be closed then
  int supersessions_ = 0;
  std::atomic<bool> has_told_progress_ = false;  // or is about to
  bool has_left_ = false, is_settled_ = false;
  std::promise<void> settled_;  // every connection is closed, for good
  std::atomic<Incarnation> incarnation_ = 0;
  Copier copier_;
  std::mutex late_;
  bool has_ended_ = false;  // the thread has; guarded by late_
  std::thread thread_;      // last: it uses the others
};

}  // namespace flockstep::engines::mesh
