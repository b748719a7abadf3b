/// A segment's file before its first use in a new life.
///
/// Its space is allocated and written, with zeros or with the records of an earlier life. It is mapped and named by its
/// number, and its directory entry is durable.
struct PreparedSegment: Sendable {
  let number: FileNumber
  let capacity: Int
  let file: any File
  /// The mapping, or `nil` if the file system has none that is safe, or if the segment is for one large record.
  let mapping: MappedFile?
  /// The charge for the mapping, whose pages are soon all resident.
  let charge: MemoryCharge?

  /// The event that listeners receive for this segment.
  func event(isReused: Bool) -> EngineEvent {
    .logSegmentCreated(number: number.value, bytes: capacity, isReused: isReused)
  }
}

/// Makes segment files, and keeps used ones for reuse.
///
/// A file whose blocks were written once can be overwritten without any change of metadata, so that a sync writes data
/// alone (see the measurements in `Formats/WriteAheadLog`). New files are zeroed in pieces of 16 KiB: ext4 keeps folios
/// of the size that was written, and after larger pieces every small sync would write as much. A used file is mapped
/// again each time for the same reason.
///
/// It is not safe for concurrent use: the log's state guards it, or its single preparing job uses it.
struct SegmentPool: Sendable {
  let directory: String
  let fileSystem: any FileSystem
  let usesMapping: Bool
  /// The account charged for mappings.
  var account: MemoryAccount?
  /// Pooled files, named `NNNNNN.pool`.
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

  /// Adds an existing `.pool` file of the directory (at open).
  mutating func adopt(_ number: FileNumber, capacity: Int) { waiting.append((number, capacity)) }

  /// Moves a segment that no unflushed entry needs to the pool, or removes it if `keep` is false.
  mutating func recycle(_ number: FileNumber, capacity: Int, keep: Bool) throws(EngineError) {
    guard keep else { return try fileSystem.remove(path(.log(number))) }
    try fileSystem.rename(path(.log(number)), to: path(.pooledLog(number)))
    waiting.append((number, capacity))
  }

  /// Removes every pooled file.
  mutating func drain() throws(EngineError) {
    while let last = waiting.popLast() { try fileSystem.remove(path(.pooledLog(last.number))) }
  }

  /// Takes every file out of the pool, and returns their numbers.
  mutating func takeAll() -> [FileNumber] {
    defer { waiting = [] }
    return waiting.map(\.number)
  }

  /// Takes a file of at least `capacity`, and less than four times that, out of the pool.
  mutating func take(capacity: Int) -> (number: FileNumber, capacity: Int)? {
    guard
      let index = waiting.firstIndex(where: { $0.capacity >= capacity && $0.capacity < max(capacity * 4, capacity + 1) }
      )
    else { return nil }
    return waiting.remove(at: index)
  }

  /// Prepares `taken`, or a new file, under `number`.
  ///
  /// If `populate` is true, the pages of the mapping are made present and writable now, so that stores do not fault.
  /// That dirties them all, so a log that is synced often is faster without. If `maps` is false, there is no mapping.
  func prepare(
    _ number: FileNumber, capacity: Int, reusing taken: (number: FileNumber, capacity: Int)?, populate: Bool,
    maps: Bool = true
  ) throws(EngineError) -> PreparedSegment {
    let target = path(.log(number))
    if let taken {
      try fileSystem.rename(path(.pooledLog(taken.number)), to: target)
    } else {
      try makeZeroed(target, capacity: capacity)
    }
    do throws(EngineError) {
      return try open(
        target, number, capacity: taken?.capacity ?? capacity, populate: populate, maps: maps, isReused: taken != nil)
    } catch {
      // The file would never be used. If it cannot be removed now, the next open removes it.
      try? fileSystem.remove(target)
      throw error
    }
  }

  private func open(
    _ path: String, _ number: FileNumber, capacity: Int, populate: Bool, maps: Bool, isReused: Bool
  ) throws(EngineError) -> PreparedSegment {
    let file = try fileSystem.openFile(path, writable: true)
    do throws(EngineError) {
      try fileSystem.syncDirectory(directory)
      let mapping = usesMapping && maps ? try file.map(size: capacity) : nil
      // The pages of a used file may have been evicted; they are read here, not in a commit.
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

  /// Creates a file of zeros whose blocks are allocated and written. A failure leaves no file.
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
      // A half-made file must not remain; if it cannot be removed here, recovery removes it.
      try? fileSystem.remove(path)
      throw error
    }
    file.close()
  }
}
