// The store of a run: a small server in the launcher's process that keeps the book of its workers. It gives a rank that
// registers a new incarnation, and remembers through the death of any worker. Workers ask it when they begin (or begin
// again) and go on without it. Who does not know the run's secret learns and changes nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "engines/mesh/book.h"

namespace flockstep::engines::mesh {

struct StoreOptions {
  std::string host = "127.0.0.1";  // listens at this address, under which the workers reach it
  std::uint16_t port = 0;          // 0: any that is free
  std::string secret;              // not empty; make_secret() makes one
  int workers = 0;                 // ranks 0 .. workers - 1 are given away already
};

// Has a thread of its own, which ends with it. Throws Error{unavailable} where it cannot listen.
class Store {
 public:
  explicit Store(const StoreOptions& options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  std::string address() const;  // host:port
  Book book() const;
  // So many ranks that nobody else has been given, rising.
  std::vector<int> reserve_ranks(int count);
  // The run is over: a worker that registers from now on is refused, since it would begin all by itself.
  void end_run();
  bool is_over() const;
  bool has_trained() const;  // a worker has told of a step

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

// Hexadecimal text of 32 random bytes.
std::string make_secret();

struct StoreAddress {
  std::string address;  // host:port
  std::string secret;
  base::Duration patience{10};  // of each request, in which it is tried again
};

struct Registration {
  Incarnation incarnation = 1;
  Book book;  // the new entry is in it
};

// What the store answers. Each throws Error{unavailable} with the reason when the patience ends, or the run is over.
// Each throws Error{bad_input} if the store says that it has another secret.
// `at_least`: the incarnation is no lower. An empty host in `address` (":port") stands for the one that the worker
// reaches the store from.
Registration register_worker(const StoreAddress& store, int rank, const std::string& address, Incarnation at_least = 1);
std::vector<int> reserve_ranks(const StoreAddress& store, int count);
Book read_book(const StoreAddress& store);
int read_workers(const StoreAddress& store);  // how many the run began with
// Why the worker must not begin the run alone, with a model of so many steps. A run that is over has nothing to begin,
// and one that has trained begins only from a checkpoint: a model without steps would train a second run.
std::optional<std::string> refusal_to_begin(const StoreAddress& store, int rank, std::int64_t steps);
void tell_progress(const StoreAddress& store, int rank);  // a worker has ended a step
void tell_end(const StoreAddress& store, int rank);       // a worker has the result: the run is over

}  // namespace flockstep::engines::mesh
