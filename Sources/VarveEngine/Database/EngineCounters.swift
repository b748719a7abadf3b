internal import Synchronization

/// What the background work counts. Relaxed: each is a statistic, and none orders anything.
final class EngineCounters: Sendable {
  private let flushed = Atomic<UInt64>(0)
  private let compactionRead = Atomic<UInt64>(0)
  private let compactionWritten = Atomic<UInt64>(0)

  func addFlushed(_ bytes: UInt64) { flushed.add(bytes, ordering: .relaxed) }
  func addCompaction(read: UInt64, written: UInt64) {
    compactionRead.add(read, ordering: .relaxed)
    compactionWritten.add(written, ordering: .relaxed)
  }

  var bytesFlushed: UInt64 { flushed.load(ordering: .relaxed) }
  var bytesCompactionRead: UInt64 { compactionRead.load(ordering: .relaxed) }
  var bytesCompactionWritten: UInt64 { compactionWritten.load(ordering: .relaxed) }
}
