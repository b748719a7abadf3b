extension Worker {
  func readRandom() throws {
    let session = self.session
    let keys = self.keys
    let recorder = self.recorder
    var sequence = self.sequence
    var found = 0
    var index = 0
    while index < operations {
      if try session.get(keys.key(sequence.next())) { found &+= 1 }
      index &+= 1
      guard recorder.finish() else { break }
    }
    self.found = found
  }

  func readMissing() throws {
    var sequence = self.sequence
    var index = 0
    while index < operations {
      if try session.get(keys.missingKey(sequence.next())) { found &+= 1 }
      index &+= 1
      guard recorder.finish() else { break }
    }
  }

  /// Moves one cursor from one end to the other, or over `--reads` entries.
  func readInOrder(reverse: Bool) throws {
    let session = self.session
    let recorder = self.recorder
    var count = 0
    var bytes = 0
    try session.openCursor()
    var isValid = try reverse ? session.seekToLast() : session.seekToFirst()
    while isValid && count < operations {
      bytes &+= session.touchEntry()
      count &+= 1
      isValid = try reverse ? session.previous() : session.next()
      guard recorder.finish() else { break }
    }
    session.closeCursor()
    found = count
    bytesTouched = bytes
  }

  /// Seeks random keys as db_bench does, with a new cursor for each seek. `found` counts the seeks that found their
  /// key.
  func seekRandom() throws {
    let session = self.session
    var sequence = self.sequence
    var index = 0
    while index < operations {
      let key = keys.key(sequence.next())
      try session.openCursor()
      var isValid = try session.seek(key)
      if isValid && session.cursorIsAt(key) { found &+= 1 }
      var steps = 0
      while isValid && steps < 10 {
        bytesTouched &+= session.touchEntry()
        isValid = try session.next()
        steps &+= 1
      }
      session.closeCursor()
      index &+= 1
      guard recorder.finish() else { break }
    }
  }
}
