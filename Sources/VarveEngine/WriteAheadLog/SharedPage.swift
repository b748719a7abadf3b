internal import Synchronization

/// State that an engine publishes to followers in other processes without a system call: the file `SHARED`,
/// mapped by all.
///
/// # Format
/// One page of 4,096 bytes. Integers are in the order of the machine, because processes of one machine share
/// them; nothing in it outlasts the machine's session.
///
/// ```
///   0  8  magic "VARVEPAG"
///   8  4  format version, 2
///  12  4  zero
///  16 16  the machine's session (`MachineSession`), high half first
///  32  8  database id
///  40  8  life id: random for each time that an engine opens; 0 while it fills in the rest
///  48  8  the sequence that the engine began with, found by recovery
///  56  8  the process id
///  64  8  the number of the segment of the log that is appended to
///  72  8  when the process began, in clock ticks since the machine started; 0: not known
///  80  8  the PID namespace of the process id; 0: not known
///  88  8  `kept`: segments of the log before this one may be freed at any time
/// 128  8  `announced`: the last commit that other processes may see
/// 192  4  waiters: followers that went to sleep since the last wake-up
/// 256     32 slots of 64 bytes, each for a reader that keeps segments (`SharedPage+Slots`):
///      0  8  owner: the process id in the low half, a random number in the high half; 0 if the slot is free
///      8  8  the first segment that the reader keeps
///     16  8  when the reader's process began, as at 72
///     24  8  the PID namespace of the reader's process id, as at 80
///     32  8  the owner again, stored last: the words between are the owner's
/// ```
///
/// All other bytes are zero. What each commit stores, what followers store, and the rest lie in cache lines of
/// their own.
///
/// Version 1 had neither `kept` nor slots. A page of another version counts as absent: the follower polls the log.
///
/// # Protocol
/// - A commit is announced (stored in `announced`) once it is as durable as its options require: one that survives the
///   process when it is in the log, one that survives a loss of power when its sync succeeded. The commits before it
///   are too. Commits that are not logged are not announced; followers see them once they are flushed.
/// - The number of a segment is stored before a commit in it is announced. Records are complete before that.
/// - A follower that sleeps adds 1 to `waiters`, checks `announced` once more, and waits by futex on its low half.
///   An engine checks `waiters` after announcing; if it is not 0 it stores 0 and wakes all. A
///   follower that dies asleep costs one needless wake-up.
/// - When the process ended without a close, the page stays at the last commit before one that waited for a sync. That
///   sync never happens, so followers read to the end of the log, as a recovery does.
/// - A reader that lost its position in the log twice keeps segments by a slot, while the engine needs them or not.
/// - The file is made once and then written without being replaced: followers have it mapped.
///
/// # Safety
/// The words lie in the mapping, which lives as long as this object.
///
/// # Concurrency
/// Any thread; all words are atomic. One engine writes; followers write `waiters` and their own slots alone.
@safe
final class SharedPage: @unchecked Sendable {
  // Sendable: every access to the mapping is atomic.
  static let size = 4096
  /// "VARVEPAG".
  static let magic: UInt64 = 0x4741_5045_5652_4156
  static let version: UInt64 = 2

  enum Offset {
    static let magic = 0
    static let version = 8
    static let sessionHigh = 16
    static let sessionLow = 24
    static let databaseID = 32
    static let lifeID = 40
    static let opened = 48
    static let process = 56
    static let segment = 64
    static let processStart = 72
    static let processNamespace = 80
    static let kept = 88
    static let announced = 128
    static let waiters = 192
    static let slots = 256
  }

  private let mapping: MappedFile
  /// A Boolean value that indicates whether this process may store. A follower without that permission polls.
  let isWritable: Bool

  private init(mapping: MappedFile, isWritable: Bool) {
    self.mapping = mapping
    self.isWritable = isWritable
  }

  func word(_ offset: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (mapping.base + offset).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  func load(_ offset: Int) -> UInt64 { unsafe word(offset).pointee.load(ordering: .acquiring) }

  func store(_ value: UInt64, _ offset: Int) {
    unsafe word(offset).pointee.store(value, ordering: .releasing)  // partner: `load`
  }

  /// The word that each commit stores. Valid while the page lives.
  @unsafe
  var announcedWord: UnsafeMutablePointer<Atomic<UInt64>> { unsafe word(Offset.announced) }

  /// The word that each commit loads. Valid while the page lives.
  @unsafe
  var waitersWord: UnsafeMutablePointer<Atomic<UInt32>> {
    unsafe (mapping.base + Offset.waiters).assumingMemoryBound(to: Atomic<UInt32>.self)
  }

  // MARK: - The engine's side

  /// Opens the page for the engine that owns the database, creating it if necessary.
  static func make(at path: String, _ fileSystem: any FileSystem) throws(EngineError) -> SharedPage {
    let isThere = try fileSystem.attributes(path) != nil
    let file = isThere ? try fileSystem.openFile(path, writable: true) : try fileSystem.createFile(path)
    defer { file.close() }
    // The file is kept even if its size is wrong: followers that have it mapped must see later changes.
    if try file.size() != UInt64(size) {
      try file.write([UInt8](repeating: 0, count: size), at: 0)
      try file.truncate(to: UInt64(size))
    }
    return SharedPage(mapping: try file.map(size: size), isWritable: true)
  }

  /// Marks an existing page as unused, because the engine that owns the database cannot map it.
  static func invalidate(at path: String, _ fileSystem: any FileSystem) throws(EngineError) {
    guard try fileSystem.attributes(path) != nil else { return }
    let file = try fileSystem.openFile(path, writable: true)
    defer { file.close() }
    try file.write([UInt8](repeating: 0, count: size), at: 0)
  }

  /// Begins a life: an engine opened and found that the log begins in `oldest`, ends at `sequence`, and continues in
  /// `segment`. No reader keeps segments of an earlier life.
  func begin(
    lifeID: UInt64, session: MachineSession, databaseID: UInt64, sequence: SequenceNumber, oldest: FileNumber,
    segment: FileNumber
  ) {
    store(0, Offset.lifeID)
    store(Self.magic, Offset.magic)
    store(Self.version, Offset.version)
    store(session.high, Offset.sessionHigh)
    store(session.low, Offset.sessionLow)
    store(databaseID, Offset.databaseID)
    store(sequence.value, Offset.opened)
    let process = ProcessIdentity.current
    store(process.number, Offset.process)
    store(process.start, Offset.processStart)
    store(ProcessIdentity.namespace, Offset.processNamespace)
    store(segment.value, Offset.segment)
    store(oldest.value, Offset.kept)
    clearSlots()
    store(sequence.value, Offset.announced)
    // Zero is not a valid life id.
    store(lifeID | 1, Offset.lifeID)
    wake()
  }

  /// Stores the segment in which the log continues.
  func setSegment(_ number: FileNumber) { store(number.value, Offset.segment) }

  /// Wakes every sleeping follower.
  func wake() {
    guard unsafe waitersWord.pointee.exchange(0, ordering: .sequentiallyConsistent) != 0 else { return }
    unsafe Futex.wake(sleepWord, Int(Int32.max), shared: true)
  }

  // MARK: - The follower's side

  /// Opens an existing page. Returns `nil` if there is none, or none of this size.
  static func open(at path: String, _ fileSystem: any FileSystem) throws(EngineError) -> SharedPage? {
    guard try fileSystem.attributes(path)?.size == UInt64(size) else { return nil }
    var isWritable = true
    let file: any File
    do throws(EngineError) { file = try fileSystem.openFile(path, writable: true) } catch {
      guard error.code == .permissionDenied || error.code == .notReadableNow else { throw error }
      isWritable = false
      file = try fileSystem.openFile(path, writable: false)
    }
    defer { file.close() }
    return SharedPage(mapping: try file.map(size: size), isWritable: isWritable)
  }

  /// The page's content as a follower reads it.
  struct Reading: Sendable, Equatable {
    var lifeID: UInt64
    /// The sequence with which the engine of this life began.
    var opened: SequenceNumber
    var announced: SequenceNumber
  }

  /// Returns the page's content, or `nil` if it is of another session or database, or if an engine is just opening.
  func read(session: MachineSession, databaseID: UInt64) -> Reading? {
    let lifeID = load(Offset.lifeID)
    guard lifeID != 0, load(Offset.magic) == Self.magic, load(Offset.version) == Self.version,
      load(Offset.sessionHigh) == session.high, load(Offset.sessionLow) == session.low,
      load(Offset.databaseID) == databaseID
    else { return nil }
    let reading = Reading(lifeID: lifeID, opened: SequenceNumber(load(Offset.opened)), announced: announced)
    return load(Offset.lifeID) == lifeID ? reading : nil
  }

  /// Returns the process of the engine with this life, if its number means the same in `namespace`, which is the
  /// caller's.
  ///
  /// Returns `nil` if it is in another container, or if another life has begun.
  func writer(life lifeID: UInt64, namespace: UInt64) -> ProcessIdentity? {
    let found = load(Offset.processNamespace)
    let process = ProcessIdentity(number: load(Offset.process), start: load(Offset.processStart))
    return load(Offset.lifeID) == lifeID && found != 0 && found == namespace ? process : nil
  }

  var announced: SequenceNumber { SequenceNumber(load(Offset.announced)) }
  /// The segment being appended to. Loaded after `announced`: that commit is in it or before it.
  var segment: FileNumber { FileNumber(load(Offset.segment)) }

  /// Sleeps until a commit other than `announced` is announced, a wake-up arrives, or the time passes.
  ///
  /// Requires: `isWritable`.
  func rest(while announced: SequenceNumber, nanoseconds: UInt64) {
    unsafe waitersWord.pointee.add(1, ordering: .sequentiallyConsistent)  // partner: `CommitAnnouncer.wakeIfAwaited`
    guard unsafe word(Offset.announced).pointee.load(ordering: .sequentiallyConsistent) == announced.value else {
      return
    }
    unsafe Futex.wait(
      on: sleepWord, while: UInt32(truncatingIfNeeded: announced.value), nanoseconds: nanoseconds, shared: true)
  }

  /// Wakes all sleepers of all processes, so that one in this process checks whether it should end.
  func interrupt() {
    if isWritable { unsafe Futex.wake(sleepWord, Int(Int32.max), shared: true) }
  }

  /// The low half of `announced`.
  @unsafe
  private var sleepWord: UnsafeMutablePointer<Atomic<UInt32>> {
    let isLittle = UInt32(1).littleEndian == 1
    return unsafe (mapping.base + Offset.announced + (isLittle ? 0 : 4)).assumingMemoryBound(to: Atomic<UInt32>.self)
  }
}
