internal import Synchronization

/// The slots by which readers in other processes keep segments of the log.
///
/// # Protocol
/// - A reader takes a free slot by an exchange of its owner, and stores `kept` as its first segment, again and again
///   until `kept` has not changed since.
/// - An engine that is about to free segments stores in `kept` the first one that it does not free, and then loads the
///   slots. Both orders are sequentially consistent: either the engine sees the slot, or the reader sees the new value.
///   So no segment from the reader's first one on is freed while the slot is honoured.
/// - An engine honours a slot for a limited time and number of bytes (`ReaderPins`). It frees the slots of processes
///   that have ended, and those that are too old. A reader frees its slot only if the owner is still its own.
extension SharedPage {
  static let slotCount = 32
  private static let slotSize = 64

  private enum Field {
    static let owner = 0
    static let segment = 8
    static let processStart = 16
    static let processNamespace = 24
    static let check = 32
  }

  private static func offset(_ slot: Int, _ field: Int) -> Int { Offset.slots + slot * slotSize + field }

  // MARK: - The engine's side

  /// Frees all slots. Only before a life begins.
  func clearSlots() {
    for slot in 0..<Self.slotCount {
      for field in stride(from: 0, to: Self.slotSize, by: 8) { store(0, Self.offset(slot, field)) }
    }
  }

  /// Announces that segments before `number` may be freed. Call it before the slots are read.
  func setKept(_ number: FileNumber) {
    unsafe word(Offset.kept).pointee.store(number.value, ordering: .sequentiallyConsistent)  // partner: `keepSegments`
  }

  /// A slot as an engine reads it.
  struct Slot {
    let owner: UInt64
    let segment: FileNumber
    /// The reader's process, and its namespace or 0, or `nil` if they are still being stored.
    let process: (identity: ProcessIdentity, namespace: UInt64)?
  }

  /// Returns a slot, or `nil` if it is free.
  func slot(_ slot: Int) -> Slot? {
    let owner = unsafe word(Self.offset(slot, Field.owner)).pointee.load(ordering: .sequentiallyConsistent)
    guard owner != 0 else { return nil }
    let segment = unsafe word(Self.offset(slot, Field.segment)).pointee.load(ordering: .sequentiallyConsistent)
    guard load(Self.offset(slot, Field.check)) == owner else {
      return Slot(owner: owner, segment: FileNumber(segment), process: nil)
    }
    let identity = ProcessIdentity(
      number: owner & UInt64(UInt32.max), start: load(Self.offset(slot, Field.processStart)))
    return Slot(
      owner: owner, segment: FileNumber(segment), process: (identity, load(Self.offset(slot, Field.processNamespace))))
  }

  /// Frees a slot if it still has this owner.
  func free(_ slot: Int, owner: UInt64) {
    _ = unsafe word(Self.offset(slot, Field.owner)).pointee.compareExchange(
      expected: owner, desired: 0, ordering: .sequentiallyConsistent)
  }

  // MARK: - The reader's side

  /// Keeps the segments that the engine has not freed yet, until the result is released.
  ///
  /// Returns `nil` if this process may not write, or if no slot is free. Complexity: O(slots).
  func keepSegments(namespace: UInt64) -> KeptSegments? {
    guard isWritable else { return nil }
    let process = ProcessIdentity.current
    let owner = UInt64(UInt32.random(in: 1...UInt32.max)) << 32 | process.number & UInt64(UInt32.max)
    for slot in 0..<Self.slotCount {
      let isTaken = unsafe word(Self.offset(slot, Field.owner)).pointee.compareExchange(
        expected: 0, desired: owner, ordering: .sequentiallyConsistent
      ).exchanged
      guard isTaken else { continue }
      store(process.start, Self.offset(slot, Field.processStart))
      store(namespace, Self.offset(slot, Field.processNamespace))
      var kept = load(Offset.kept)
      while true {
        unsafe word(Self.offset(slot, Field.segment)).pointee.store(kept, ordering: .sequentiallyConsistent)
        // Partner: `setKept`.
        let now = unsafe word(Offset.kept).pointee.load(ordering: .sequentiallyConsistent)
        if now == kept { break }
        kept = now
      }
      store(owner, Self.offset(slot, Field.check))
      return KeptSegments(self, slot, owner)
    }
    return nil
  }
}

/// Segments that this process keeps from being freed by the process that writes the database.
///
/// The writing engine honours this for a limited time and number of bytes (`ReaderPins`). Safe from any thread.
final class KeptSegments: Sendable {
  private let page: SharedPage
  private let slot: Int
  private let owner: UInt64

  fileprivate init(_ page: SharedPage, _ slot: Int, _ owner: UInt64) {
    self.page = page
    self.slot = slot
    self.owner = owner
  }

  deinit { page.free(slot, owner: owner) }
}
