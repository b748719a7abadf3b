import Foundation

extension Worker {
  func putSingly() throws {
    let session = self.session
    let keys = self.keys
    let values = self.values
    let recorder = self.recorder
    var sequence = self.sequence
    let alwaysSynced = workload.isSynced(0, settings)
    let sometimesSynced = workload == .fillmixed
    var index = 0
    while index < operations {
      let key = keys.key(sequence.next())
      let isSynced = sometimesSynced ? workload.isSynced(index, settings) : alwaysSynced
      try session.put(key, values.next(), sync: isSynced)
      index &+= 1
      guard recorder.finish() else { break }
    }
  }

  /// Writes `--batch-size` puts per commit; the latency is that of the whole batch.
  func putBatches() throws {
    var sequence = self.sequence
    var index = 0
    while index < operations {
      let count = min(settings.batchSize, operations - index)
      var isSynced = settings.sync
      for offset in 0..<count {
        try session.addToBatch(keys.key(sequence.next()), values.next())
        if workload.isSynced(index + offset, settings) { isSynced = true }
      }
      try session.commitBatch(sync: isSynced)
      index += count
      guard recorder.finish(count) else { break }
    }
  }

  func deleteRandom() throws {
    var sequence = self.sequence
    var index = 0
    while index < operations {
      try session.delete(keys.key(sequence.next()))
      index &+= 1
      guard recorder.finish() else { break }
    }
  }

  /// Runs the writer of `readwhilewriting`. It repeats the sequence of the first thread of `fillrandom`, so that it
  /// only overwrites, and the counts that readers find don't depend on its speed.
  func writeUntil(_ stop: StopFlag) throws {
    var sequence = Self.sequence(.fillrandom, settings, thread: 0)
    let length = max(settings.num / settings.threads, 1)
    recorder.begin()
    let start = Clock.now()
    while !stop.isSet {
      try session.put(keys.key(sequence.next()), values.next(), sync: settings.sync)
      guard recorder.finish() else { break }
      if recorder.operations % length == 0 { sequence = Self.sequence(.fillrandom, settings, thread: 0) }
      if settings.writeRate > 0, recorder.operations & 15 == 0 {
        let due = start + UInt64(recorder.operations) * 1_000_000_000 / UInt64(settings.writeRate)
        let now = Clock.now()
        if due > now + 500_000 { usleep(UInt32((due - now) / 1000)) }
      }
    }
    recorder.stop()
  }
}
