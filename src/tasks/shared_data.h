// Data that all workers of a process read alike, such as a set of images: made once for all that ask while one of them
// holds it. A later run sees files as they are then.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace flockstep::tasks {

template <typename Key, typename Data>
class SharedData {
 public:
  template <typename Make>
  std::shared_ptr<const Data> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);  // held while making: the others would only make the same
    if (auto data = kept_[key].lock()) return data;
    const auto data = std::make_shared<const Data>(make());
    kept_[key] = data;
    return data;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Data>> kept_;
};

}  // namespace flockstep::tasks
