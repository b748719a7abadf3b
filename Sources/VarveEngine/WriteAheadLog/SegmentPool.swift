/// A segment's file before its first use in a new life: allocated, written with zeros or with the
/// records of an earlier life, mapped, named by its number, its directory entry durable.
struct PreparedSegment: Sendable {
  let number: FileNumber
  let capacity: Int
  let file: any File
  let mapping: MappedFile?
  /// For the mapping, whose pages are all there before long.
  let charge: MemoryCharge?

  /// What listeners are told of it.
  func event(isReused: Bool) -> EngineEvent {
    .logSegmentCreated(number: number.value, bytes: capacity, isReused: isReused)
  }
}

/// Makes segment files, and keeps used ones to be used again.
///
/// A file whose blocks were written once can be overwritten without any change of metadata, so that
/// a sync writes data alone (`Formats/WriteAheadLog` has the figures). New files are zeroed in pieces
/// of 16 KiB: ext4 keeps folios of the size that was written, and after larger pieces every small
/// sync would write as much. A used file is mapped anew each time for the same reason.
///
/// Not safe for concurrent use: the log's state guards it, or its one preparing job.
struct SegmentPool: Sendable {
  let directory: String
  let fileSystem: any FileSystem
  let usesMapping: Bool
  /// What mappings are charged to.
  var account: MemoryAccount?
  /// Files that wait, as `NNNNNN.pool`.
  private(set) var waiting: [(number: FileNumber, capacity: Int)] = []

  static let zeroPieceSize = 16 << 10

  var waitingBytes: Int { waiting.reduce(0) { $0 + $1.capacity } }

  init(directory: String, fileSystem: any FileSystem, usesMapping: Bool, account: MemoryAccount? = nil) {
    self.account = account
    self.directory = directory
    self.fileSystem = fileSystem
    self.usesMapping = usesMapping
  }

  func path(_ name: FileName) -> String { directory + "/" + name.name }

  /// Takes in a file that stands in the directory as `.pool` (at open).
  mutating func adopt(_ number: FileNumber, capacity: Int) { waiting.append((number, capacity)) }

  /// Turns a segment that no unflushed entry needs into a waiting one, or removes it where enough wait.
  mutating func recycle(_ number: FileNumber, capacity: Int, keep: Bool) throws(EngineError) {
    guard keep else { return try fileSystem.remove(path(.log(number))) }
    try fileSystem.rename(path(.log(number)), to: path(.pooledLog(number)))
    waiting.append((number, capacity))
  }

  /// Removes every waiting file.
  mutating func drain() throws(EngineError) {
    while let last = waiting.popLast() { try fileSystem.remove(path(.pooledLog(last.number))) }
  }

  /// Takes a waiting file of at least `capacity`, and less than four times that, out of the pool.
  mutating func take(capacity: Int) -> (number: FileNumber, capacity: Int)? {
    guard
      let index = waiting.firstIndex(where: { $0.capacity >= capacity && $0.capacity < max(capacity * 4, capacity + 1) }
      )
    else { return nil }
    return waiting.remove(at: index)
  }

  /// Makes `taken`, or a new file, ready under `number`.
  ///
  /// `populate`: make the pages of the mapping present and writable now, so that stores don't fault.
  /// That dirties them all, so a log that is synced often is better off without.
  func prepare(
    _ number: FileNumber, capacity: Int, reusing taken: (number: FileNumber, capacity: Int)?, populate: Bool
  ) throws(EngineError) -> PreparedSegment {
    let target = path(.log(number))
    if let taken {
      try fileSystem.rename(path(.pooledLog(taken.number)), to: target)
    } else {
      try makeZeroed(target, capacity: capacity)
    }
    do throws(EngineError) {
      return try open(
        target, number, capacity: taken?.capacity ?? capacity, populate: populate, isReused: taken != nil)
    } catch {
      // Nobody would ever use it; if it can't be removed now, the next open does it.
      try? fileSystem.remove(target)
      throw error
    }
  }

  private func open(
    _ path: String, _ number: FileNumber, capacity: Int, populate: Bool, isReused: Bool
  ) throws(EngineError) -> PreparedSegment {
    let file = try fileSystem.openFile(path, writable: true)
    do throws(EngineError) {
      try fileSystem.syncDirectory(directory)
      let mapping = usesMapping ? try file.map(size: capacity) : nil
      // The pages of a used file may be out of memory by now: here, and not in a commit, is where they are read.
      if isReused { try mapping?.load(path: path) }
      if populate { mapping?.populate() }
      return PreparedSegment(
        number: number, capacity: capacity, file: file, mapping: mapping,
        charge: mapping.map { _ in MemoryCharge(capacity, to: account) })
    } catch {
      file.close()
      throw error
    }
  }

  /// A file of zeros whose blocks are allocated and written. Nothing is left behind by a failure.
  private func makeZeroed(_ path: String, capacity: Int) throws(EngineError) {
    let file = try fileSystem.createFile(path)
    do throws(EngineError) {
      let zeros = [UInt8](repeating: 0, count: Self.zeroPieceSize)
      var offset = 0
      while offset < capacity {
        let size = min(Self.zeroPieceSize, capacity - offset)
        try zeros.withByteView { (view) throws(EngineError) in
          try unsafe file.write(view.slice(0, size).buffer, at: UInt64(offset))
        }
        offset += size
      }
      try file.sync()
    } catch {
      file.close()
      // The file is not ours to keep half-made; if it can't be removed either, recovery does it.
      try? fileSystem.remove(path)
      throw error
    }
    file.close()
  }
}
