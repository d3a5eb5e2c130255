// The data and the network of both programs: nothing here knows of workers.
#pragma once

#include <torch/torch.h>
#include <zlib.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// The images of MNIST or Fashion-MNIST in a folder, or a part of them; files plain or gzip'ed.
class Mnist : public torch::data::datasets::Dataset<Mnist> {
 public:
  enum class Part { train, test };

  Mnist(const std::string& folder, Part part) {
    const std::string prefix = folder + (part == Part::train ? "/train-" : "/t10k-");
    const std::vector<uint8_t> images = read(prefix + "images-idx3-ubyte", 16),
                               labels = read(prefix + "labels-idx1-ubyte", 8);
    const auto count = static_cast<int64_t>(labels.size());
    if (count == 0 || images.size() != labels.size() * 784)
      throw std::runtime_error(folder + " does not hold a label for every image of 28 x 28 pixels");
    images_ = torch::from_blob(const_cast<uint8_t*>(images.data()), {count, 1, 28, 28}, torch::kUInt8)
                  .to(torch::kFloat32)
                  .div_(255)
                  .sub_(0.3)
                  .div_(0.35);
    labels_ = torch::from_blob(const_cast<uint8_t*>(labels.data()), {count}, torch::kUInt8).to(torch::kInt64);
  }

  torch::data::Example<> get(size_t index) override {
    return {images_[static_cast<int64_t>(index)], labels_[static_cast<int64_t>(index)]};
  }
  torch::optional<size_t> size() const override { return static_cast<size_t>(labels_.size(0)); }

  const torch::Tensor& images() const { return images_; }
  const torch::Tensor& labels() const { return labels_; }

 private:
  static std::vector<uint8_t> read(const std::string& name, size_t header) {
    for (const std::string& path : {name, name + ".gz"}) {
      const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
      if (!file) continue;
      std::vector<uint8_t> bytes;
      uint8_t block[65536];
      int size = 0;
      while ((size = gzread(file.get(), block, sizeof block)) > 0) bytes.insert(bytes.end(), block, block + size);
      if (size < 0 || bytes.size() < header) throw std::runtime_error(path + " cannot be read");
      bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
      return bytes;
    }
    throw std::runtime_error("there is neither " + name + " nor " + name + ".gz");
  }

  torch::Tensor images_, labels_;
};

struct NetImpl : torch::nn::Module {
  NetImpl()
      : first(register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)))),
        norm(register_module("norm", torch::nn::BatchNorm2d(16))),
        second(register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)))),
        hidden(register_module("hidden", torch::nn::Linear(32 * 7 * 7, 64))),
        scores(register_module("scores", torch::nn::Linear(64, 10))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(first(x))), 2);
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return scores(torch::relu(hidden(x.flatten(1))));
  }

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d norm;
  torch::nn::Conv2d second;
  torch::nn::Linear hidden, scores;
};
TORCH_MODULE(Net);

inline double accuracy(Net& net, const Mnist& test) {
  const torch::NoGradGuard no_grad;
  net->eval();
  int64_t right = 0;
  for (int64_t begin = 0; begin < test.labels().size(0); begin += 256) {
    const int64_t end = std::min(begin + 256, test.labels().size(0));
    const torch::Tensor chosen = net(test.images().slice(0, begin, end)).argmax(1);
    right += chosen.eq(test.labels().slice(0, begin, end)).sum().item<int64_t>();
  }
  net->train();
  return static_cast<double>(right) / static_cast<double>(test.labels().size(0));
}
