// Data that all workers of a process read: made once for all who ask while one of them holds it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace flockstep::tasks {

// One per kind of data, as a static. Weak: data live as long as somebody trains on them, and a later run sees the files
// as they are then.
template <typename Data, typename Key = std::string>
class SharedData {
 public:
  // What was made under this key, or what `make()` returns.
  template <typename Make>
  std::shared_ptr<const Data> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);  // held while making: the others would only make the same
    if (auto data = made_[key].lock()) return data;
    const auto data = std::make_shared<const Data>(make());
    made_[key] = data;
    return data;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Data>> made_;
};

}  // namespace flockstep::tasks
