#include "engines/mpi/backend.h"

#include <unistd.h>

#include <cctype>

#include "engines/mpi/engine.h"

namespace flockstep::engines::mpi {
namespace {

constexpr base::Duration kFarewell{3600};  // between the ends of the first worker and the last

bool asked(int (*question)(int*), std::string_view what) {
  int answer = 0;
  checked(question(&answer), what);
  return answer != 0;
}

bool initialised() { return asked(MPI_Initialized, "asking whether MPI is initialised"); }
bool finalised() { return asked(MPI_Finalized, "asking whether MPI is finalised"); }

// MPI is one per process, can be initialised once, and has to be finalised at the very end: by us if we did the one.
class Library {
 public:
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // The function-local static is MPI's own doing: any owner with a shorter life would finalise before the next run.
  static Library& get() {
    if (finalised())
      throw Error(ErrorCode::unavailable, "MPI is finalised already: run before MPI_Finalize is called", "mpi");
    static Library library;
    return library;
  }

  int thread_level() const { return thread_level_; }

  // MPI_Finalize waits for the peers, so after a failure nobody may call it. A run holds one of these; it is only
  // dismissed when all went well.
  class Ban {
   public:
    explicit Ban(Library& library) : library_(library) { ++library_.bans_; }
    void lift() { --library_.bans_; }

   private:
    Library& library_;
  };

 private:
  Library() {
    if (initialised()) {
      checked(MPI_Query_thread(&thread_level_), "asking for the thread level");
    } else {
      checked(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &thread_level_), "initialising MPI");
      owner_ = getpid();
    }
  }

  // Only in the process that initialised: a fork of it shares MPI's sockets.
  ~Library() {
    if (owner_ != getpid() || bans_ > 0) return;
    try {
      if (!finalised()) checked(MPI_Finalize(), "finalising MPI");
    } catch (const Error&) {  // at the end of the process, with nobody left to tell
    }
  }

  int thread_level_ = MPI_THREAD_SINGLE;
  pid_t owner_ = 0;
  int bans_ = 0;
};

std::string_view name_of(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return "an unknown thread level";
  }
}

// "Open MPI v4.1.4, package: ..." -> "Open MPI 4.1.4"; "MPICH Version:      4.0.2\nMPICH Release date: ..." -> "MPICH
// 4.0.2".
std::string shortened(std::string_view text) {
  text = text.substr(0, text.find_first_of(",\n"));
  std::string words;
  while (!text.empty()) {
    const std::size_t space = std::min(text.find_first_of(" \t"), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (word.size() > 1 && word[0] == 'v' && std::isdigit(static_cast<unsigned char>(word[1]))) word.remove_prefix(1);
    if (word.empty() || word == "Version:") continue;
    if (!words.empty()) words += ' ';
    words += word;
  }
  return words;
}

}  // namespace

Availability availability() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  checked(MPI_Get_library_version(text.data(), &length), "asking for MPI's version");
  return {true, shortened({text.data(), static_cast<std::size_t>(length)}), ""};
}

std::string thread_level() { return std::string(name_of(Library::get().thread_level())); }

void run(const LaunchOptions& options, const WorkerMain& worker_main) {
  if (options.deterministic)
    throw Error(ErrorCode::bad_input,
                "deterministic mode needs the threads or the sim engine: processes of mpi run freely", "mpi");
  Library& library = Library::get();
  if (library.thread_level() < MPI_THREAD_MULTIPLE)
    throw Error(
        ErrorCode::unavailable,
        fmt::format("the mpi engine needs MPI_THREAD_MULTIPLE and got {}: initialise MPI with it, or use an MPI "
                    "that was built with it",
                    name_of(library.thread_level())),
        "mpi");
  require_tags();
  int world = 0;
  checked(MPI_Comm_size(MPI_COMM_WORLD, &world), "reading the size of the world");
  if (options.workers != 0 && options.workers != world)
    throw Error(ErrorCode::bad_input,
                fmt::format("--workers {} but mpirun started {} process{}: drop --workers or start {}", options.workers,
                            world, world == 1 ? "" : "es", options.workers),
                "mpi");

  Library::Ban no_finalising(library);
  MpiEngine engine(MPI_COMM_WORLD);
  try {
    worker_main(engine);
  } catch (const std::exception& error) {
    engine.abandon(error);
    throw;
  } catch (...) {
    engine.abandon(std::runtime_error("an exception of an unknown kind"));
    throw;
  }
  if (engine.is_broken()) return engine.tell_what_is_untold();  // the worker chose to live with it
  engine.close(kFarewell);
  no_finalising.lift();
}

void abort_all(int code) {
  if (!initialised() || finalised()) return;
  int world = 0;
  checked(MPI_Comm_size(MPI_COMM_WORLD, &world), "reading the size of the world");
  if (world > 1) checked(MPI_Abort(MPI_COMM_WORLD, code), "ending the job");
}

}  // namespace flockstep::engines::mpi
