import Foundation

/// The minimum cost of `fillsync`: append one record, call `fdatasync`, and repeat, without an engine.
///
/// The file is first written with zeros and synced, so that no append changes its size or its extents, and a sync
/// writes only the record's page.
enum SyncLoop {
  /// The bytes that a log adds to key and value: checksum, lengths, sequence, kind.
  private static let headerSize = 24

  static func run(directory: String, settings: RunSettings, recorder: Recorder) throws {
    let operations = Workload.syncloop.operationCount(settings)
    let recordSize = settings.keySize + settings.valueSize + headerSize
    let path = directory + "/syncloop"
    let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC, 0o600)
    guard descriptor >= 0 else { throw EngineFailure("can't create \(path): errno \(errno)") }
    defer {
      close(descriptor)
      unlink(path)
    }
    let zeros = [UInt8](repeating: 0, count: 16_384)
    let size = (operations * recordSize + zeros.count) / zeros.count * zeros.count
    for offset in stride(from: 0, to: size, by: zeros.count) {
      guard pwrite(descriptor, zeros, zeros.count, off_t(offset)) == zeros.count else {
        throw EngineFailure("can't write \(path): errno \(errno)")
      }
    }
    guard fsync(descriptor) == 0 else { throw EngineFailure("can't sync \(path): errno \(errno)") }

    let values = ValueSource(
      valueSize: recordSize, compressionRatio: settings.compressionRatio, seed: settings.seed)
    recorder.begin()
    for index in 0..<operations {
      let record = values.next()
      guard pwrite(descriptor, record.baseAddress, recordSize, off_t(index * recordSize)) == recordSize,
        fdatasync(descriptor) == 0
      else { throw EngineFailure("can't append to \(path): errno \(errno)") }
      guard recorder.finish() else { break }
    }
    recorder.stop()
  }
}
