// libjpeg leaves by longjmp where it fails, so between setjmp and there nothing may have a destructor: what does is
// made outside, in decode_jpeg.
#include <csetjmp>
#include <cstdio>
// jpeglib.h wants FILE to be known.
#include <fmt/core.h>
#include <jerror.h>
#include <jpeglib.h>

#include "tasks/data_file.h"
#include "tasks/images/picture.h"

namespace flockstep::tasks {
namespace {

constexpr int kMostScans = 100;  // a small file can hold endless ones, each of which goes over all pixels

struct JpegReader {
  JpegReader();
  ~JpegReader() { ::jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Each returns false where the file is bad; `message` says how.
  bool read_header(std::span<const std::byte> file);
  bool read_pixels(Picture& picture);

  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf leave{};
  char message[JMSG_LENGTH_MAX]{};
};

JpegReader& reader_of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

[[noreturn]] void leave_with(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  (*info->err->format_message)(info, reader.message);
  std::longjmp(reader.leave, 1);
}

// Warnings that come before made-up pixels, as in a file that is cut short, are refused like errors. Others are not:
// files of cameras and editors hold stray bytes and wrong headers whose pixels are all there.
bool makes_up_pixels(int warning) {
  switch (warning) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL: return false;
    default: return true;
  }
}

JpegReader::JpegReader() {
  info.err = ::jpeg_std_error(&errors);
  errors.error_exit = [](j_common_ptr common) { leave_with(common); };
  errors.emit_message = [](j_common_ptr common, int level) {
    if (level < 0 && makes_up_pixels(common->err->msg_code)) leave_with(common);
  };
  progress.progress_monitor = [](j_common_ptr common) {
    JpegReader& reader = reader_of(common);
    if (reader.info.input_scan_number <= kMostScans) return;
    std::snprintf(reader.message, sizeof reader.message, "it has more than %d scans", kMostScans);
    std::longjmp(reader.leave, 1);
  };
  info.client_data = this;
  if (setjmp(leave) != 0) throw std::bad_alloc();
  jpeg_create_decompress(&info);
  info.progress = &progress;
}

bool JpegReader::read_header(std::span<const std::byte> file) {
  if (setjmp(leave) != 0) return false;
  ::jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  ::jpeg_read_header(&info, TRUE);
  return true;
}

bool JpegReader::read_pixels(Picture& picture) {
  if (setjmp(leave) != 0) return false;
  info.out_color_space = JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  ::jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = picture.pixels.data() + std::size_t{info.output_scanline} * picture.width * 3;
    ::jpeg_read_scanlines(&info, &row, 1);
  }
  ::jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Picture decode_jpeg(std::span<const std::byte> file, const std::string& name) {
  JpegReader reader;
  const auto refuse = [&] { refuse_file(name, fmt::format("is no JPEG image that can be read: {}", reader.message)); };
  if (!reader.read_header(file)) refuse();
  check_size_of_picture(reader.info.image_width, reader.info.image_height, name);
  Picture picture{reader.info.image_width, reader.info.image_height, {}};
  picture.pixels.resize(picture.width * picture.height * 3);
  if (!reader.read_pixels(picture)) refuse();
  return picture;
}

}  // namespace flockstep::tasks
