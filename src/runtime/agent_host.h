// A thread beside the worker that reacts to messages, transfers, times and to the worker's own requests, one thing at a
// time. What it shares with the worker is handed over, never locked: a request runs on the agent's thread while the
// worker waits for the answer.
//
// Agents count on each other: once a worker has ended, a request that is not answered at once throws Error{peer_lost},
// where the engine hears of it. A request that is not answered in time breaks the engine: before, the agent asks all
// others how far their workers are, so that the sentence names those who are missing.
//
// On an engine that outlives its peers the service hears who is met and who is lost, and decides. What is under way
// with one who is lost is over.
//
// Agents of all workers are made together, and those that are made together hear of each other alone: what a former one
// has left under way in control messages is dropped, and transfers have tags of their own.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "math/update_guard.h"
#include "runtime/context.h"

namespace flockstep::runtime {

class AgentHost {
 public:
  // What the agent is for. All calls come on the agent's thread; what they throw breaks the engine.
  class Service {
   public:
    virtual ~Service() = default;
    virtual void on_control(int peer, std::span<const std::byte> payload) = 0;
    // Called once `wake_at` has passed; the service then asks for the next time, if any.
    virtual void on_time() {}
    // On engines that outlive their peers. A service that has nothing to say about it counts on everybody.
    virtual bool outlives_peers() const { return false; }
    virtual void on_met(int /*peer*/, engines::Incarnation) {}
    virtual void on_lost(int /*peer*/, engines::Incarnation) {}
    // For the sentence of a deadline: the round that the worker has arrived at last, and the one that all others have
    // to have arrived at before it can go on. Nothing where there are no rounds.
    struct Progress {
      std::int64_t arrived, needed;
    };
    virtual std::optional<Progress> progress() const { return std::nullopt; }
    // For the same sentence: what holds up the request, if the service knows.
    virtual std::optional<std::string> obstacle() const { return std::nullopt; }
    // Iterations that the worker has ended; nothing while it is away, or where workers need not do the same number.
    virtual std::optional<std::int64_t> counted() const { return std::nullopt; }
    // Whoever guards the worker's updates, and hears of those of others; null for nobody.
    virtual math::UpdateGuard* guard() { return nullptr; }
  };

  // A fourth of the engine's: agents that follow each other use different ones.
  static constexpr engines::Tag kTags = engines::kMaximalTag / 4, kLongTags = engines::kMaximalLongTag / 4;

  // Starts the agent, and returns once every worker has started its own, or at once where the service outlives peers.
  // `service` must outlive it. `name` appears in sentences. Throws Error{bad_input} if the worker has an agent already.
  AgentHost(Context& context, const std::string& name, Service& service);
  // Ends it. Transfers that are not done are withdrawn where the engine can.
  ~AgentHost();
  AgentHost(const AgentHost&) = delete;
  AgentHost& operator=(const AgentHost&) = delete;

  // ---- the worker's side ----
  // Has the agent run `request`, and waits until the service has called answer(), in it or later. `what` is a string
  // literal that completes "... did not finish within 5 s"; counted and traced as a wait.
  void ask(const std::function<void()>& request, std::string_view what);

  // ---- the service's side ----
  void answer();
  // In a request: breaks the engine if a worker has ended.
  void require_all();
  // `done` is called once the transfer is done, `over` where it will never be, since the peer is lost or it was
  // withdrawn. The bytes are the engine's until then. Tags are below kTags, or kLongTags where the service outlives
  // peers.
  enum class Load { part, model, gift };  // of a model for this worker; for another one
  void send(
      int peer, engines::Tag tag, engines::ConstBytes data, std::function<void()> done, Load load = Load::part,
      std::function<void()> over = [] {});
  void receive(
      int peer, engines::Tag tag, engines::Bytes data, std::function<void()> done, Load load = Load::part,
      std::function<void()> over = [] {});
  // Nothing of this load is wanted any more: `then` is called once nothing of it is under way.
  void withdraw(Load load, std::function<void()> then);
  // All connections have ended: what is under way is over, and nothing that was said before counts.
  void drop_all();
  void send_control(int peer, std::span<const std::byte> payload);
  // In a request: the worker rests with what it has counted(), and goes on once all workers rest. A worker that waits
  // in a further iteration waits in vain: it breaks the engine with Error{mismatch}.
  void tell_rest();
  // The guard has judged another update: tells one of the others about it, each in turn.
  void tell_update();
  // `done` is called once `is_done` is true, which no engine hears of: the work of a device. Looked at again and again,
  // without a deadline: whoever waits for what follows has one.
  void after(std::function<bool()> is_done, std::function<void()> done);
  void wake_at(base::Time time) { wake_at_ = time; }  // replaces the time asked for before
  base::Time now() const { return context_.engine().now(); }
  std::size_t transfers() const { return transfers_.size(); }  // under way

 private:
  // Which of the worker's agents this is, from the first, for as long as it lives.
  class Instance {
   public:
    explicit Instance(Context& context) : context_(context), number_(context.begin_agent()) {}
    ~Instance() { context_.end_agent(); }
    Instance(const Instance&) = delete;
    Instance& operator=(const Instance&) = delete;
    std::uint32_t number() const { return number_; }

   private:
    Context& context_;
    std::uint32_t number_;
  };
  struct Transfer {
    engines::Pending operation;
    bool is_send;
    int peer;
    base::Time deadline;
    std::function<void()> done, over;
    Load load;
    bool is_done = false, is_gone = false, is_withdrawn = false;
  };

  struct Withdrawal {
    Load load;
    std::function<void()> then;
  };
  struct Watched {
    std::function<bool()> is_done;
    base::Time since;
    std::function<void()> done;
  };

  // What a control message is: the service's own, or between hosts.
  enum class Kind : std::uint32_t { message, question, answer, update, rest, none };
  // The `number`th time that a worker rests. All tell worker 0, which passes on the one that has ended least.
  struct Rest {
    std::int64_t number, ended, rank;
  };
  // Between a request that is not answered in time and the sentence about it: who has not said yet that it is there.
  struct Inquiry {
    base::Time end;
    std::vector<int> silent, behind;
  };

  void run();
  bool look();
  void react();
  Kind kind_of(const engines::Control& control) const;
  void on_control(const engines::Control& control);
  void send_control(int peer, Kind kind, std::span<const std::byte> payload);
  void hear_rest(const Rest& rest);
  void require_same_end();
  void require_answer();
  void inquire();
  void fail_late();
  engines::Tag own_tag(engines::Tag tag) const;
  std::optional<int> needed_one_that_ended() const;
  void end_transfers();
  void end_watched();
  void require_in_time();
  base::Time next_time() const;
  bool is_withdrawn(const Withdrawal& withdrawal) const;
  void end_withdrawals();
  void end() noexcept;

  Context& context_;
  const std::string name_;
  Service& service_;
  const Instance instance_;
  std::unique_ptr<engines::Signal> for_agent_, for_worker_;
  const std::function<void()>* request_ = nullptr;  // handed over by for_agent_, back by for_worker_
  std::string_view what_;                           // the same
  std::atomic<bool> stopping_ = false;
  // The agent's own.
  bool has_request_ = false, owes_answer_ = false;
  base::Time asked_{};  // when the request came
  std::optional<Inquiry> inquiry_;
  std::int64_t rests_ = 0;    // that the worker has begun
  std::optional<Rest> rest_;  // of the highest number
  std::optional<int> ended_;  // a worker that has
  std::optional<int> lost_;   // the same on an engine that outlives it
  std::optional<int> gone_;   // one without which a request will not be answered
  std::deque<engines::Control> controls_;
  std::set<int> others_;  // who may be told something
  int told_last_;
  std::vector<Transfer> transfers_;  // in the order in which they were issued, and so of their deadlines
  std::vector<Watched> watched_;
  std::vector<Withdrawal> withdrawals_;
  base::Time wake_at_ = base::Time::max();
  std::unique_ptr<engines::Agent> agent_;  // last: it uses the others
};

}  // namespace flockstep::runtime
