// The secret of a run, 64 hexadecimal digits, in a file that its owner alone can read.
#pragma once

#include <string>

namespace flockstep::supervisor {

// Makes the file, mode 0600. Throws Error{bad_file}, also where there is one.
void write_secret(const std::string& path, const std::string& secret);

// Throws Error{bad_input} for a file that cannot be read, that others can read, or that holds something else.
std::string read_secret(const std::string& path);

// A folder for one user, gone with the object.
class PrivateFolder {
 public:
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace flockstep::supervisor
